set -e
python search.py > search.log     # gepa tells of each iteration
tail -n 8 search.log
