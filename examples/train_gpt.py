# SPDX-License-Identifier: Apache-2.0
"""Trains a small character-level GPT (a transformers LlamaForCausalLM) on the tpu, and lets it write."""

import copy
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from report import check, chip, console, measured, summary
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import LlamaConfig, LlamaForCausalLM

CONTEXT, BATCH, STEPS, NEW = 64, 16, 300, 64


def read_text() -> tuple[torch.Tensor, list[str]]:
    """The text as numbers, and the character of each number."""
    text = (Path(__file__).parent / "data" / "poems.txt").read_text()
    characters = sorted(set(text))
    number = {character: i for i, character in enumerate(characters)}
    return torch.tensor([number[character] for character in text]), characters


def make_model(vocabulary: int) -> LlamaForCausalLM:
    """Four blocks of width 128, with the same weights each time."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=128,
            intermediate_size=352,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=256,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )
    )


def train(model: LlamaForCausalLM, text: torch.Tensor) -> tuple[float, float]:
    """Returns the loss of the first step, and the mean of the last ten."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=STEPS)
    pick = torch.Generator().manual_seed(0)
    losses = []
    columns = (
        TextColumn("  training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[loss]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("train", total=STEPS, loss="")
        for step in range(STEPS):
            starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=pick)
            batch = text[starts + torch.arange(CONTEXT)].to("tpu")
            loss = model(input_ids=batch, labels=batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
            shown = f"loss {loss.item():.3f}" if step % 10 == 0 else None  # reading a value waits for the chip
            progress.update(task, advance=1, **({"loss": shown} if shown else {}))
    values = torch.stack(losses).cpu()
    return values[0].item(), values[-10:].mean().item()


def main() -> None:
    """Runs the example."""
    text, characters = read_text()
    model = make_model(len(characters)).to("tpu")
    console.rule(f"a GPT of {sum(p.numel() for p in model.parameters()):,} parameters that learns to write")
    console.print(f"on {chip()}")
    with measured(f"{STEPS} steps of {BATCH} x {CONTEXT} characters"):
        first, last = train(model, text)
    check(f"the loss fell below half: {first:.2f} -> {last:.2f}", last < first / 2)

    model.eval()
    prompt = torch.tensor([[characters.index(character) for character in "Shall I "]])
    options = {"max_new_tokens": NEW, "do_sample": False, "attention_mask": torch.ones_like(prompt)}
    expected = copy.deepcopy(model).to("cpu").generate(prompt, **options)
    options["attention_mask"] = options["attention_mask"].to("tpu")
    with measured(f"{NEW} characters, eager"):
        eager = model.generate(prompt.to("tpu"), **options).cpu()
    with measured(f"{NEW} characters, static cache (compiled)"):
        static = model.generate(prompt.to("tpu"), cache_implementation="static", **options).cpu()
    console.print("  it writes:", repr("".join(characters[i] for i in eager[0].tolist())), markup=False)
    check("eager: the same characters as the CPU", torch.equal(eager, expected))
    check("static cache: the same characters as the CPU", torch.equal(static, expected))


if __name__ == "__main__":
    main()
    summary()
