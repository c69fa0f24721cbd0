#!/usr/bin/env python3
"""The workloads of `tensorgrad bench` in PyTorch, and both side by side.

    python3 bench/pytorch.py --program build/release/bin/tensorgrad --device webgpu
    python3 bench/pytorch.py --device cpu --threads 2 --only mlp,addition

f32, TF32 off. On CUDA a step is timed eagerly, under torch.compile and as a captured CUDA graph; the
best of them is what is compared. Times are medians of repeated measurements, milliseconds a step.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    sys.exit("bench/pytorch.py needs PyTorch, which is not installed here.")

# layers, width, heads, context, batch, vocabulary, relu; and steps in a measurement
GPTS = {
    "transformer": ((2, 128, 4, 32, 32, 64, True), 50),
    "addition": ((3, 128, 4, 12, 256, 13, False), 30),
    "char-gpt": ((6, 384, 6, 256, 64, 65, False), 5),
    "gpt2": ((12, 768, 12, 1024, 4, 50257, False), 3),
}
MATMULS = (256, 512, 1024, 2048, 4096)
NAMES = ["mlp", *GPTS, *(f"matmul-{n}x{n}x{n}" for n in MATMULS)]


class Mlp(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


class Block(nn.Module):
    def __init__(self, width, heads, relu):
        super().__init__()
        self.heads, self.relu = heads, relu
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time_steps, width = x.shape
        heads = [
            part.view(batch, time_steps, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.n1(x)).chunk(3, -1)
        ]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, time_steps, width))
        hidden = self.up(self.n2(x))
        return x + self.down(F.relu(hidden) if self.relu else F.gelu(hidden))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, batch, vocabulary, relu):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, relu) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def workload(name, device):
    """A model, its batch, its loss and the steps of a measurement."""
    if name == "mlp":
        x = torch.rand(256, 1, device=device) * 6 - 3
        return Mlp().to(device), (x, x.sin()), lambda m, b: F.mse_loss(m(b[0]), b[1]), 100
    config, steps = GPTS[name]
    shape = (config[4], config[3])
    ids, targets = (torch.randint(0, config[5], shape, device=device) for _ in range(2))
    loss = lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    return Gpt(*config).to(device), (ids, targets), loss, steps


def median_ms(step, steps, repeats, device):
    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    start = time.perf_counter()
    while time.perf_counter() - start < 0.3:
        step()
    wait()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        times.append(1e3 * (time.perf_counter() - start) / steps)
    return statistics.median(times)


def training_times(name, device, repeats):
    """Each way of running a step on a model of its own: one must not see what another left behind."""
    results = {}

    def attempt(way, prepare):
        model, batch, loss, steps = workload(name, device)
        try:
            step = prepare(model, batch, loss)
            results[way] = median_ms(step, steps, repeats, device)
        except Exception as error:  # what PyTorch cannot do here is said, not hidden
            print(f"  {name}, {way}: failed: {str(error).splitlines()[0][:100]}")

    def eager(model, batch, loss, forward=None):
        fused = {"fused": True} if device == "cuda" else {}
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **fused)

        def step():
            optimizer.zero_grad(set_to_none=True)
            value = loss(model if forward is None else forward, batch)
            value.backward()
            optimizer.step()
            return value

        return step

    def read(*arguments):
        step = eager(*arguments)
        return lambda: step().item()

    def compiled(model, batch, loss):
        mode = "reduce-overhead" if device == "cuda" else "default"
        return eager(model, batch, loss, torch.compile(model, mode=mode))

    if device == "cuda":
        attempt("graph", captured)
        torch.cuda.reset_peak_memory_stats()
    attempt("eager", eager)
    if device == "cuda":
        results["peak MiB"] = torch.cuda.max_memory_allocated() / 2**20
    attempt("loss read", read)
    attempt("compile", compiled)
    return results


def captured(model, batch, loss):
    """A whole step as a CUDA graph."""
    rate = torch.tensor(1e-3, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True, capturable=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            loss(model, batch).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss(model, batch).backward()
        optimizer.step()
    return graph.replay


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/release/bin/tensorgrad")
    parser.add_argument("--device", default="webgpu", help="tensorgrad's device: webgpu or cpu")
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="CPU threads on both sides")
    args = parser.parse_args()
    device = "cpu" if args.device == "cpu" else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("bench/pytorch.py: PyTorch sees no CUDA device; --device cpu compares on the CPU.")
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [args.program, "bench", "--device", args.device, "--only", args.only,
                   "--repeats", str(args.repeats), "--json", file.name]
        environment = {**os.environ, "TENSORGRAD_THREADS": str(args.threads)}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        ours = {result["name"]: result for result in json.load(file)["results"]}

    version = f"PyTorch {torch.__version__}"
    print(f"milliseconds; {version} on "
          f"{torch.cuda.get_device_name() if device == 'cuda' else f'{args.threads} CPU threads'}")
    print(f"{'workload':24} {'tensorgrad':>10} {'read':>8} {'steps':>8} | "
          f"{'eager':>8} {'read':>8} {'compile':>8} {'graph':>8} | {'eager/ours':>10} {'best/ours':>10}"
          f"   MiB ours / peak")
    for name in args.only.split(","):
        mine = ours.get(name)
        if mine is None:
            continue
        if name.startswith("matmul-"):
            n = int(name.split("x")[1])
            a, b = (torch.randn(n, n, device=device) for _ in range(2))
            theirs = {"eager": median_ms(lambda: a @ b, 20, args.repeats, device)}
        else:
            theirs = training_times(name, device, args.repeats)
        own = min(mine["ms"], mine.get("ms_run_steps", mine["ms"]))
        best = min(v for k, v in theirs.items() if k in ("eager", "compile", "graph"))
        cell = lambda table, key: f"{table[key]:8.3f}" if key in table else " " * 8
        memory = ""
        if "memory" in mine and "peak MiB" in theirs:
            memory = f"   {mine['memory'] / 2**20:.0f} / {theirs['peak MiB']:.0f}"
        print(f"{name:24} {mine['ms']:10.3f} {cell(mine, 'ms_read')} {cell(mine, 'ms_run_steps')} | "
              f"{cell(theirs, 'eager')} {cell(theirs, 'loss read')} {cell(theirs, 'compile')} "
              f"{cell(theirs, 'graph')} | {theirs['eager'] / own:10.2f} {best / own:10.2f}{memory}",
              flush=True)


if __name__ == "__main__":
    main()
