# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 with its real weights: the same embeddings as on the CPU."""

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A man is eating a piece of bread.",
    "Someone has toast.",
    "Interest rates were raised.",
]


@pytest.fixture(scope="module")
def inputs(minilm):
    return AutoTokenizer.from_pretrained(minilm)(SENTENCES, padding=True, return_tensors="pt")


@pytest.fixture(scope="module")
def expected(minilm, inputs):
    with torch.no_grad():
        return AutoModel.from_pretrained(minilm).eval()(**inputs).last_hidden_state


@pytest.fixture(scope="module")
def model(minilm):
    return AutoModel.from_pretrained(minilm, device_map="tpu").eval()


def close(result, expected):
    torch.testing.assert_close(result.cpu(), expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_eager(model, inputs, expected, eager_mode, counted):
    close(model(**inputs.to("tpu")).last_hidden_state, expected)
    assert counted()["fallbacks"] == 0


@torch.no_grad()
def test_compiled_once(model, inputs, expected, counted):
    fast = torch.compile(model, backend="tpu", fullgraph=True, dynamic=False)
    device_inputs = inputs.to("tpu")
    close(fast(**device_inputs).last_hidden_state, expected)
    compiled = counted()["compilations"]
    close(fast(**device_inputs).last_hidden_state, expected)
    assert counted()["compilations"] == compiled
    assert counted()["fallbacks"] == 0


def test_weights_go_back(model, minilm, tmp_path):
    model.save_pretrained(tmp_path)
    saved = AutoModel.from_pretrained(tmp_path).state_dict()
    for name, weight in AutoModel.from_pretrained(minilm).state_dict().items():
        assert torch.equal(saved[name], weight), name
