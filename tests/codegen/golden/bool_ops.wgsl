// kernel bool_ops
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<i32>;
@group(0) @binding(2) var<storage, read> in2: array<u32>;
@group(0) @binding(3) var<storage, read> in3: array<u32>;
@group(0) @binding(4) var<storage, read_write> out4: array<u32>;
@group(0) @binding(5) var<storage, read_write> out5: array<i32>;
@group(0) @binding(6) var<storage, read_write> out6: array<f32>;
@group(0) @binding(7) var<storage, read_write> out7: array<i32>;

fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// Towards zero, to the nearest i32 where there is none; 0 of NaN.
fn tg_to_i32(x: f32) -> i32 {
  let inside = i32(clamp(x, -2147483648.0, 2147483520.0));
  return select(select(inside, 2147483647, x >= 2147483648.0), 0, tg_is_nan(x));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let block = group.x;
  let point = block * 64u + local;
  if (point >= 40u) {
    return;
  }
  let i0 = point;
  let load0 = in0[point];
  let load1 = in1[point];
  let load2 = in2[point] != 0u;
  let load3 = in3[point] != 0u;
  let less5 = load0 < 0.5;
  let equal7 = load1 == 2;
  let logical_not8 = !load2;
  let logical_and9 = logical_not8 && less5;
  let cast10 = load1 != 0;
  let where11 = select(cast10, equal7, less5);
  let logical_or12 = logical_and9 || where11;
  let less13 = !load2 && load3;
  let less_equal14 = !load2 || load3;
  let equal15 = less13 == less_equal14;
  let cast16 = i32(equal15);
  let cast17 = f32(load1);
  let where18 = select(cast17, load0, logical_or12);
  let mul20 = load0 * 2147483648.0;
  let cast21 = tg_to_i32(mul20);
  out4[point] = select(0u, 1u, logical_or12);
  out5[point] = cast16;
  out6[point] = where18;
  out7[point] = cast21;
}
// 1 x 1 x 1 workgroups of 64 threads, 0 bytes shared
