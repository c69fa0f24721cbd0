// kernel scatter_10x5
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<i32>;
@group(0) @binding(2) var<storage, read> in2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out3: array<f32>;

var<workgroup> hits: array<atomic<u32>, 2>;

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let row = block;
  let live = local < 5u;
  let column = min(local, 4u);
  let i1 = column;
  var sum8 = 0.0;
  for (var step = 0u; step < 1u; step++) {
    if (local <= 1u) {
      atomicStore(&hits[local], 0u);
    }
    workgroupBarrier();
    for (var look = 0u; look < 1u; look++) {
      let bit = look * 32u + local;
      let i2 = step * 32u + bit;
      if (i2 < 7u) {
        let load0 = in1[i2];
        if (load0 == i32(row)) {
          atomicOr(&hits[bit / 32u], 1u << (bit % 32u));
          atomicStore(&hits[1u], 1u);
        }
      }
    }
    workgroupBarrier();
    if (atomicLoad(&hits[1u]) != 0u) {
      for (var word = 0u; word < 1u; word++) {
        var bits = atomicLoad(&hits[word]);
        for (var left = countOneBits(bits); left > 0u; left--) {
          let i2 = step * 32u + word * 32u + firstTrailingBit(bits);
          bits &= bits - 1u;
          let load1 = in2[i1 + 5u * i2];
          let mul3 = load1 * 2.0;
          sum8 += mul3;
        }
      }
    }
    workgroupBarrier();
  }
  let load9 = in0[5u * row + i1];
  let add10 = load9 + sum8;
  if (live) {
    out3[5u * row + i1] = add10;
  }
}
// 10 x 1 x 1 workgroups of 32 threads, 8 bytes shared
