// kernel permute
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out1: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 60u) {
    return;
  }
  let i1 = point / 5u;
  let i2 = point % 5u;
  let load0 = in0[i1 + 12u * i2];
  out1[point] = load0;
}
// 1 x 1 x 1 workgroups of 64 threads, 0 bytes shared
