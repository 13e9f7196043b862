set -e
combee traces sessions
combee learn --from sessions --name shop
combee why shop err-00002
combee export shop --to skill --out .claude/skills/shop --description "Use when building, testing or migrating the shop"
