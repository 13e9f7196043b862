python search.py | tail -n 8      # gepa tells of each iteration above
