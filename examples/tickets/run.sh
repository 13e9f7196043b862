set -e
combee learn tickets.csv --question ticket --answer queue --name tickets
combee eval tickets
combee why tickets ctx-00002
