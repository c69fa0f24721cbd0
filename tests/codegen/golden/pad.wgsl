// kernel pad
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read_write> out1: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 108u) {
    return;
  }
  let i0 = point / 18u;
  let i1 = point % 18u;
  var load0 = 0.0;
  if (i0 - 1u < 4u && i1 - 2u < 13u && (i1 - 2u) % 3u == 0u) {
    load0 = in0[((i1 + 1u) / 3u) + 5u * i0 - 6u];
  }
  let test1 = i0 - 1u < 4u && i1 - 2u < 13u && (i1 - 2u) % 3u == 0u;
  let where3 = select((-1.5), load0, test1);
  out1[point] = where3;
}
// 2 x 1 x 1 workgroups of 64 threads, 0 bytes shared
