// kernel in_place
@group(0) @binding(0) var<storage, read_write> out0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 50u) {
    return;
  }
  let i0 = point;
  let load0 = out0[point];
  let add1 = load0 + load0;
  let load2 = out1[point];
  let sub3 = load2 - load0;
  out0[point] = add1;
  out2[point] = sub3;
}
// 1 x 1 x 1 workgroups of 64 threads, 0 bytes shared
