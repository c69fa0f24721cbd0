// kernel add_relu_5x7
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;

fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// NaN stays NaN, even where a compiler takes `x <= 0 ? 0 : x` for the maximum.
fn tg_relu(x: f32) -> f32 {
  return select(max(x, 0.0), x, tg_is_nan(x));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 35u) {
    return;
  }
  let i0 = point / 7u;
  let i1 = point % 7u;
  let load0 = in0[point];
  let load1 = in1[i1];
  let add2 = load0 + load1;
  let relu3 = tg_relu(add2);
  out2[point] = relu3;
}
// 1 x 1 x 1 workgroups of 64 threads, 0 bytes shared
