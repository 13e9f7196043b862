"""The stock gepa package, with Combee's reflection in two lines."""

import gepa
from combee.gepa import CombeeReflection  # 1

RULES = {"red": "stop", "green": "go", "amber": "slow", "blue": "park", "white": "yield", "black": "detour"}
TASKS = [{"sign": sign, "number": number} for sign in RULES for number in range(5)]


class Signs(gepa.GEPAAdapter):
    """A driver that knows what its prompt says, and nothing else."""

    def evaluate(self, batch, candidate, capture_traces=False):
        known = [f"{task['sign']}: {RULES[task['sign']]}" in candidate["prompt"] for task in batch]
        outputs = ["right" if one else "drive on" for one in known]
        scores = [float(one) for one in known]
        return gepa.EvaluationBatch(outputs=outputs, scores=scores, trajectories=batch if capture_traces else None)

    def make_reflective_dataset(self, candidate, evaluated, components):
        missed = [
            {"Inputs": task, "Generated Outputs": said, "Feedback": f"{task['sign']}: {RULES[task['sign']]}"}
            for task, said, score in zip(evaluated.trajectories, evaluated.outputs, evaluated.scores, strict=True)
            if not score
        ]
        return {"prompt": missed}


def writer(prompt: str) -> str:
    """Stands for a language model: it keeps every rule that it reads."""
    kept = [f"{sign}: {rule}" for sign, rule in RULES.items() if f"{sign}: {rule}" in prompt]
    return "```\nDrive by the signs.\n" + "\n".join(kept) + "\n```"


with CombeeReflection(writer) as reflection:
    found = gepa.optimize(
        seed_candidate={"prompt": "Drive by the signs."},
        trainset=TASKS[::2],
        valset=TASKS[1::2],
        adapter=Signs(),
        reflection_strategy=reflection,  # 2, in the place of reflection_lm=...
        reflection_minibatch_size=10,
        max_metric_calls=80,
        seed=0,
    )
print(f"{found.val_aggregate_scores[0]:.2f} before, {max(found.val_aggregate_scores):.2f} after")
print(found.best_candidate["prompt"])
