"""What to run, how it is put together and executed: what the command line, Python and a service share.

It prints nothing and parses no command line.
"""

from __future__ import annotations
