// kernel flip_concat
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read_write> out2: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 33u) {
    return;
  }
  let i0 = point;
  var load0 = 0.0;
  if ((point % 11u) < 4u) {
    load0 = in0[4u * (point / 11u) + 3u - (point % 11u)];
  }
  var load1 = 0.0;
  if ((point % 11u) - 4u < 7u) {
    load1 = in1[(point % 11u) + 7u * (point / 11u) - 4u];
  }
  let test2 = (point % 11u) < 4u;
  let where3 = select(load1, load0, test2);
  out2[point] = where3;
}
// 1 x 1 x 1 workgroups of 64 threads, 0 bytes shared
