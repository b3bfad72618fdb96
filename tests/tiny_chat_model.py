"""A chat model small enough to train in a test, behind the real server `transformers serve`.

Its chat template shows it only the item to label, one token a word, and it answers one of two
replies. With ``n_steps=0`` its weights are random, and so are the words that it writes.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

REPLIES = {label: json.dumps({"label": label}) for label in ("ham", "spam")}
TEMPLATE = (
    "{% set item = messages[1]['content'].split('The item to label:')[-1] %}"
    "{{ item.split('<item>')[-1].split('</item>')[0] }} [ANSWER]"
)
_START_SECONDS = 600


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def save_chat_model(folder, texts, labels, n_steps=60):
    """Train a model to give these labels to these texts; it and its tokenizer are in ``folder``."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[END]", "[ANSWER]", *REPLIES.values()]
    vocabulary += sorted({word for text in texts for word in words(text)})
    numbers = {word: number for number, word in enumerate(vocabulary)}
    base = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    base.normalizer = normalizers.Lowercase()
    base.pre_tokenizer = pre_tokenizers.Split(r" ", "removed")
    base.add_special_tokens(["[PAD]", "[UNK]", "[END]", "[ANSWER]"])
    base.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("removed")]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=base, pad_token="[PAD]", unk_token="[UNK]", eos_token="[END]"
    )
    tokenizer.chat_template = TEMPLATE
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=numbers["[END]"],
        pad_token_id=numbers["[PAD]"],
    )
    model = LlamaForCausalLM(config)
    _train(model, tokenizer, texts, [numbers[REPLIES[label]] for label in labels], n_steps)
    if n_steps == 0:
        model.generation_config.max_new_tokens = 8
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _train(model, tokenizer, texts, replies, n_steps):
    import torch

    rows = []
    for text, reply in zip(texts, replies, strict=True):
        item = json.dumps({"message": text})
        prompt = tokenizer(f"\n{item}\n [ANSWER]")["input_ids"]
        rows.append([*prompt, reply, tokenizer.eos_token_id])
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), tokenizer.pad_token_id)
    targets = torch.full((len(rows), width), -100)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        targets[i, len(row) - 2 : len(row)] = torch.tensor(row[-2:])
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(n_steps):
        loss = model(input_ids=ids, attention_mask=ids != tokenizer.pad_token_id, labels=targets)
        loss.loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@contextlib.contextmanager
def transformers_serve(model):
    """The address of `transformers serve` with a model in a folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = Path(sys.executable).with_name("transformers")
    arguments = ["serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([command, *arguments], env=environment)
    try:
        _await_health(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def _await_health(url, process):
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"transformers serve ended with exit code {process.returncode}")
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(url, timeout=1).close()
            return
        time.sleep(0.2)
    raise RuntimeError("transformers serve does not answer")
