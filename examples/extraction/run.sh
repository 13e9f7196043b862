set -e
: > mock.log
combee mock --student invoices.jsonl --port 0 >> mock.log &      # an endpoint with a scripted student behind it
trap 'kill $!' EXIT
until grep -q listening mock.log; do sleep 0.1; done
export OPENAI_BASE_URL=$(sed -n 's/^listening on //p' mock.log)
combee learn --dry-run
combee learn --name extraction
combee show extraction
