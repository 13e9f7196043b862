"""An agent of one's own: any function from a question and a playbook to an answer."""

import combee

ROWS = [
    (f"{sign}{place} to {sign}{place + 1}: which line?", line)
    for sign, line in (("A", "U1"), ("B", "U7"), ("C", "S3"), ("D", "S41"))
    for place in range(10, 16)
]


def agent(question: str, playbook: combee.Playbook) -> str:
    """Answer by the first lesson about the same district; where there is none, guess."""
    for bullet in playbook:
        if f'"{question[0]}' in bullet.text:
            return bullet.text.split()[-1].rstrip(".")
    return "U1"


result = combee.learn(ROWS, agent=agent, batch=5)
scores = combee.evaluate(result, agent=agent)
print(f"{len(result.playbook)} lessons; {scores.without:.2f} right without them, {scores.score:.2f} with them")
for bullet in result.playbook:
    print(bullet.text)
