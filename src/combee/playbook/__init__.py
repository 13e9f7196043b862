"""playbook."""
