# SPDX-License-Identifier: Apache-2.0
"""A small LlamaForCausalLM: generation and training steps as on the CPU."""

import copy

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

PROMPT = torch.tensor([[5, 17, 3, 29, 11]])
NEW = 12


@pytest.fixture(scope="module")
def on_cpu():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,  # so that the greedy choice is never close
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture
def model(on_cpu):
    return copy.deepcopy(on_cpu).to("tpu")


def generate(model, **options):
    prompt = PROMPT.to(model.device)
    options |= {"max_new_tokens": NEW, "do_sample": False, "attention_mask": torch.ones_like(prompt)}
    return model.generate(prompt, **options).cpu()


def test_generate_eager(on_cpu, model, eager_mode, counted):
    assert torch.equal(generate(model), generate(on_cpu))
    assert counted()["fallbacks"] == 0


def test_generate_with_a_static_cache(on_cpu, model, counted):
    assert torch.equal(generate(model, cache_implementation="static"), generate(on_cpu))
    for _ in range(4):  # the code repeats: fused programs get their final cuts, and what is padded often its program
        generate(model, cache_implementation="static")
    compiled = counted()["compilations"]
    generate(model, cache_implementation="static")
    assert counted()["compilations"] == compiled
    assert counted()["fallbacks"] == 0


@pytest.mark.parametrize("how", ["strict", "fused", "compiled"])
def test_training_steps(on_cpu, model, how, counted):
    def steps(model, call):
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        batch = torch.arange(48, device=model.device).reshape(2, 24) % 31
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = call(input_ids=batch, labels=batch).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses).cpu()

    reference = copy.deepcopy(on_cpu)
    expected = steps(reference, reference)
    assert expected[-1] < expected[0]
    with torch.tpu.set_eager_mode("strict" if how == "compiled" else how):
        call = torch.compile(model, backend="tpu", fullgraph=True, dynamic=False) if how == "compiled" else model
        torch.testing.assert_close(steps(model, call), expected, atol=1e-3, rtol=1e-3)
    for (name, weight), (_, wanted) in zip(model.named_parameters(), reference.named_parameters(), strict=True):
        torch.testing.assert_close(weight.cpu(), wanted, atol=5e-3, rtol=5e-3, msg=lambda m, name=name: f"{name}: {m}")
    assert counted()["fallbacks"] == 0


def test_steps_after_the_second_compile_nothing(model, counted):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    batch = torch.arange(48, device="tpu").reshape(2, 24)
    after = []
    for _ in range(4):
        optimizer.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        schedule.step()
        after.append(counted()["compilations"])
    assert after[1:] == [after[1]] * 3
