// kernel matmul_20x24x300_add_relu
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read> in2: array<f32>;
@group(0) @binding(3) var<storage, read> in3: array<f32>;
@group(0) @binding(4) var<storage, read_write> out4: array<f32>;
@group(0) @binding(5) var<storage, read_write> out5: array<f32>;

var<workgroup> lhs_tile: array<vec4<f32>, 288>;
var<workgroup> rhs_tile: array<vec4<f32>, 256>;

fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// NaN stays NaN, even where a compiler takes `x <= 0 ? 0 : x` for the maximum.
fn tg_relu(x: f32) -> f32 {
  return select(max(x, 0.0), x, tg_is_nan(x));
}

fn lhs(m: u32, k: u32) -> f32 {
  if (m >= 20u || k >= 300u) {
    return 0.0;
  }
  return in0[300u * m + k];
}

fn rhs(n: u32, k: u32) -> f32 {
  if (n >= 24u || k >= 300u) {
    return 0.0;
  }
  return in1[n + 24u * k];
}

fn finish(m: u32, n: u32, acc: f32) {
  if (m >= 20u || n >= 24u) {
    return;
  }
  let load4 = in2[n];
  let add5 = acc + load4;
  let relu6 = tg_relu(add5);
  let load7 = in3[24u * m + n];
  let add8 = relu6 + load7;
  out4[24u * m + n] = relu6;
  out5[24u * m + n] = add8;
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let tile = group.x;
  let m0 = 0u;
  let n0 = 0u;
  let slice = local / 64u;
  let id = local % 64u;
  let lhs_start = slice * 144u;
  let rhs_start = slice * 128u;
  let x = id % 8u;
  let y = id / 8u;
  var acc0_0: vec4<f32>;
  var acc1_0: vec4<f32>;
  var acc2_0: vec4<f32>;
  var acc3_0: vec4<f32>;
  for (var step = 0u; step < 10u; step++) {
    let k0 = step * 32u + slice * 16u;
    for (var round = 0u; round < 2u; round++) {
      let q = id + round * 64u;
      let k = q % 16u;
      let quad = q / 16u;
      let at = m0 + 4u * quad;
      lhs_tile[lhs_start + k * 9u + quad] = vec4<f32>(lhs(at, k0 + k), lhs(at + 1u, k0 + k), lhs(at + 2u, k0 + k), lhs(at + 3u, k0 + k));
    }
    for (var round = 0u; round < 2u; round++) {
      let q = id + round * 64u;
      let quad = q % 8u;
      let k = q / 8u;
      let at = n0 + 4u * quad;
      rhs_tile[rhs_start + k * 8u + quad] = vec4<f32>(rhs(at, k0 + k), rhs(at + 1u, k0 + k), rhs(at + 2u, k0 + k), rhs(at + 3u, k0 + k));
    }
    workgroupBarrier();
    for (var part = 0u; part < 4u; part++) {
      let lhs_at = lhs_start + part * 36u + y;
      let rhs_at = rhs_start + part * 32u + x;
      let a0_0 = lhs_tile[lhs_at];
      let b0_0 = rhs_tile[rhs_at];
      acc0_0 = fma(vec4<f32>(a0_0[0]), b0_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a0_0[1]), b0_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a0_0[2]), b0_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a0_0[3]), b0_0, acc3_0);
      let a1_0 = lhs_tile[lhs_at + 9u];
      let b1_0 = rhs_tile[rhs_at + 8u];
      acc0_0 = fma(vec4<f32>(a1_0[0]), b1_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a1_0[1]), b1_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a1_0[2]), b1_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a1_0[3]), b1_0, acc3_0);
      let a2_0 = lhs_tile[lhs_at + 18u];
      let b2_0 = rhs_tile[rhs_at + 16u];
      acc0_0 = fma(vec4<f32>(a2_0[0]), b2_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a2_0[1]), b2_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a2_0[2]), b2_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a2_0[3]), b2_0, acc3_0);
      let a3_0 = lhs_tile[lhs_at + 27u];
      let b3_0 = rhs_tile[rhs_at + 24u];
      acc0_0 = fma(vec4<f32>(a3_0[0]), b3_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a3_0[1]), b3_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a3_0[2]), b3_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a3_0[3]), b3_0, acc3_0);
    }
    workgroupBarrier();
  }
  lhs_tile[local] = acc0_0;
  workgroupBarrier();
  for (var other = 1u; other < 2u; other++) {
    acc0_0 += lhs_tile[id + other * 64u];
  }
  workgroupBarrier();
  lhs_tile[local] = acc1_0;
  workgroupBarrier();
  for (var other = 1u; other < 2u; other++) {
    acc1_0 += lhs_tile[id + other * 64u];
  }
  workgroupBarrier();
  lhs_tile[local] = acc2_0;
  workgroupBarrier();
  for (var other = 1u; other < 2u; other++) {
    acc2_0 += lhs_tile[id + other * 64u];
  }
  workgroupBarrier();
  lhs_tile[local] = acc3_0;
  workgroupBarrier();
  for (var other = 1u; other < 2u; other++) {
    acc3_0 += lhs_tile[id + other * 64u];
  }
  workgroupBarrier();
  if (slice > 0u) {
    return;
  }
  finish(m0 + 4u * y, n0 + 4u * x, acc0_0[0]);
  finish(m0 + 4u * y, n0 + 4u * x + 1u, acc0_0[1]);
  finish(m0 + 4u * y, n0 + 4u * x + 2u, acc0_0[2]);
  finish(m0 + 4u * y, n0 + 4u * x + 3u, acc0_0[3]);
  finish(m0 + 4u * y + 1u, n0 + 4u * x, acc1_0[0]);
  finish(m0 + 4u * y + 1u, n0 + 4u * x + 1u, acc1_0[1]);
  finish(m0 + 4u * y + 1u, n0 + 4u * x + 2u, acc1_0[2]);
  finish(m0 + 4u * y + 1u, n0 + 4u * x + 3u, acc1_0[3]);
  finish(m0 + 4u * y + 2u, n0 + 4u * x, acc2_0[0]);
  finish(m0 + 4u * y + 2u, n0 + 4u * x + 1u, acc2_0[1]);
  finish(m0 + 4u * y + 2u, n0 + 4u * x + 2u, acc2_0[2]);
  finish(m0 + 4u * y + 2u, n0 + 4u * x + 3u, acc2_0[3]);
  finish(m0 + 4u * y + 3u, n0 + 4u * x, acc3_0[0]);
  finish(m0 + 4u * y + 3u, n0 + 4u * x + 1u, acc3_0[1]);
  finish(m0 + 4u * y + 3u, n0 + 4u * x + 2u, acc3_0[2]);
  finish(m0 + 4u * y + 3u, n0 + 4u * x + 3u, acc3_0[3]);
}
// 1 x 1 x 1 workgroups of 128 threads, 8704 bytes shared
