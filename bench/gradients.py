#!/usr/bin/env python3
"""Derived backward passes: a GPT-2 block beside the floors of its stages; kernels beside texts by hand.

  gradients.py HEADROOM [--device cuda|cpu] [--examples FOLDER] [--hand FOLDER] [--tokens 1024,4096] [--rounds 3]
               [--name WORDS] [--out FILE.md]

in:   the command; examples/gpt2_block*.hr, which --examples takes elsewhere (an older tree's); with --hand, files of the
      names of kernels/*_backward.hr with other texts of the same kernels
out:  a table of times beside the floors of stages, and one of the kernels

A time is the median of `headroom run --tune none --repeat 30`.
"""

import argparse
import concurrent.futures
import json
import statistics
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
BLOCK = [("gpt2_block", "forward"), ("gpt2_block_training", "forward for training"), ("gpt2_block_backward", "backward")]
WIDTHS = ["C=768", "H=12", "D=64", "F=3072"]
FLAGS = ["--tune", "none", "--no-verify"]
KERNELS = {"layernorm_backward": ["T=bf16", "M=32768", "N=4096"], "rmsnorm_backward": ["T=bf16", "M=32768", "N=4096"],
           "cross_entropy_backward": ["F=bf16", "T=8192", "V=50304"], "swiglu_backward": ["T=bf16", "M=32768", "N=4096"],
           "embedding_backward": ["F=bf16", "T=65536", "V=50304", "C=768"],
           "attention_backward": ["T=bf16", "B=4", "H=16", "I=4096", "J=4096", "D=128", "E=128"]}


def run(headroom, device, text, extents, repeat=30):
    command = [headroom, "run", str(text), *extents, "--device", device, *FLAGS, "--repeat", str(repeat), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{text}: {done.stderr.strip()[:300]}", flush=True)
        return None
    return json.loads(done.stdout)


def microseconds(result):
    return result["seconds"]["median"] * 1e6


def floors(result):
    return sum(stage["floor_seconds"] for stage in result["plan"]["stages"]) * 1e6


def block(headroom, device, examples, tokens):
    sizes = [[f"T={t}", *WIDTHS] for t in tokens]
    cases = [(kernel, words, extents) for extents in sizes for kernel, words in BLOCK]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:  # what is compiled is kept
        list(pool.map(lambda case: run(headroom, device, examples / f"{case[0]}.hr", case[2], 1), cases))
    lines = ["| kernel | T | time | floors of its stages | of the time | stages |", "|---|---|---|---|---|---|"]
    for kernel, words, extents in cases:
        result = run(headroom, device, examples / f"{kernel}.hr", extents)
        if result:
            time, floor = microseconds(result), floors(result)
            lines.append(f"| {words} | {extents[0][2:]} | {time:.0f} µs | {floor:.0f} µs | {floor / time:.2f} | {len(result['plan']['stages'])} |")
            print(lines[-1], flush=True)
    return lines


def beside_hand(headroom, device, hand, rounds):
    lines = ["", "| kernel | derived | by hand | derived / by hand |", "|---|---|---|---|"]
    for kernel, extents in KERNELS.items():
        texts = [HERE.parent / "kernels" / f"{kernel}.hr", hand / f"{kernel}.hr"]
        if not texts[1].exists():
            continue
        pairs = [[run(headroom, device, f"{text}:{kernel}", extents) for text in texts] for _ in range(rounds)]
        if all(all(pair) for pair in pairs):
            derived, by_hand = (statistics.median(microseconds(pair[i]) for pair in pairs) for i in range(2))
            words = " ".join(extents)
            lines.append(f"| {kernel} {words} | {derived:.1f} µs | {by_hand:.1f} µs | {derived / by_hand:.3f} |")
            print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headroom")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--examples", type=Path, default=HERE.parent / "examples")
    parser.add_argument("--hand", type=Path)
    parser.add_argument("--tokens", default="1024,4096")
    parser.add_argument("--rounds", type=int, default=3, help="of kernels beside texts by hand")
    parser.add_argument("--name", default="A GPT-2 block and its derived backward pass")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    tokens = [int(t) for t in given.tokens.split(",") if t]
    lines = [f"# {given.name}", "", f"`examples/gpt2_block*.hr` in bf16 with {', '.join(WIDTHS)}.", ""]
    lines += block(given.headroom, given.device, given.examples, tokens) if tokens else []
    lines += beside_hand(given.headroom, given.device, given.hand, given.rounds) if given.hand else []
    page = "\n".join(lines) + "\n"
    if given.out:
        given.out.write_text(page)
    else:
        print(page)


if __name__ == "__main__":
    main()
