// kernel gather
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<i32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 54u) {
    return;
  }
  let i0 = point / 6u;
  let i1 = point % 6u;
  let load0 = in1[i0];
  var load1 = 0.0;
  if (u32(load0) < 5u) {
    load1 = in0[6u * u32(load0) + i1];
  }
  out2[point] = load1;
}
// 1 x 1 x 1 workgroups of 64 threads, 0 bytes shared
