// kernel scatter_12x33_last
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<i32>;
@group(0) @binding(2) var<storage, read> in2: array<f32>;
@group(0) @binding(3) var<storage, read_write> out3: array<f32>;

var<workgroup> hits: array<atomic<u32>, 17>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let row = block;
  let live = local < 33u;
  let column = min(local, 32u);
  let i0 = column;
  var sum8 = 0.0;
  for (var step = 0u; step < 2u; step++) {
    if (local <= 16u) {
      atomicStore(&hits[local], 0u);
    }
    workgroupBarrier();
    for (var look = 0u; look < 4u; look++) {
      let bit = look * 128u + local;
      let i2 = step * 512u + bit;
      if (i2 < 600u) {
        let load0 = in1[i2];
        if (load0 == i32(row)) {
          atomicOr(&hits[bit / 32u], 1u << (bit % 32u));
          atomicStore(&hits[16u], 1u);
        }
      }
    }
    workgroupBarrier();
    if (atomicLoad(&hits[16u]) != 0u) {
      for (var word = 0u; word < 16u; word++) {
        var bits = atomicLoad(&hits[word]);
        for (var left = countOneBits(bits); left > 0u; left--) {
          let i2 = step * 512u + word * 32u + firstTrailingBit(bits);
          bits &= bits - 1u;
          let load1 = in2[600u * i0 + i2];
          let mul3 = load1 * 2.0;
          sum8 += mul3;
        }
      }
    }
    workgroupBarrier();
  }
  let load9 = in0[12u * i0 + row];
  let add10 = load9 + sum8;
  if (live) {
    out3[12u * i0 + row] = add10;
  }
}
// 12 x 1 x 1 workgroups of 128 threads, 68 bytes shared
