// kernel matmul_20x24x300_add_relu
@group(0) @binding(0) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> in1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> in2: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> in3: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out4: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out5: array<vec4<f32>>;

var<workgroup> lhs_tile: array<vec4<f32>, 288>;
var<workgroup> rhs_tile: array<vec4<f32>, 256>;

fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// NaN stays NaN, even where a compiler takes `x <= 0 ? 0 : x` for the maximum.
fn tg_relu(x: f32) -> f32 {
  return select(max(x, 0.0), x, tg_is_nan(x));
}

struct Gathered {
  quad7: vec4<f32>,
}

fn gather(m: u32, quad: u32) -> Gathered {
  var gathered: Gathered;
  if (!(m >= 20u || quad >= 6u)) {
    gathered.quad7 = in3[6u * m + quad];
  }
  return gathered;
}

fn finish(m: u32, quad: u32, acc: vec4<f32>, gathered: Gathered) {
  if (m >= 20u || quad >= 6u) {
    return;
  }
  let n = 4u * quad;
  let quad4 = in2[quad];
  let add5_0 = acc[0] + quad4[0];
  let relu6_0 = tg_relu(add5_0);
  let add8_0 = relu6_0 + gathered.quad7[0];
  let add5_1 = acc[1] + quad4[1];
  let relu6_1 = tg_relu(add5_1);
  let add8_1 = relu6_1 + gathered.quad7[1];
  let add5_2 = acc[2] + quad4[2];
  let relu6_2 = tg_relu(add5_2);
  let add8_2 = relu6_2 + gathered.quad7[2];
  let add5_3 = acc[3] + quad4[3];
  let relu6_3 = tg_relu(add5_3);
  let add8_3 = relu6_3 + gathered.quad7[3];
  out4[6u * m + quad] = vec4<f32>(relu6_0, relu6_1, relu6_2, relu6_3);
  out5[6u * m + quad] = vec4<f32>(add8_0, add8_1, add8_2, add8_3);
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
  let lhs0_piece = id;
  let lhs0_quad = lhs0_piece / 4u;
  let lhs0_k = 4u * (lhs0_piece % 4u);
  var lhs0_0: vec4<f32>;
  var lhs0_1: vec4<f32>;
  var lhs0_2: vec4<f32>;
  var lhs0_3: vec4<f32>;
  let lhs0_by0 = min(4u * lhs0_quad, 19u - m0) * 75u;
  let lhs0_by1 = min(4u * lhs0_quad + 1u, 19u - m0) * 75u;
  let lhs0_by2 = min(4u * lhs0_quad + 2u, 19u - m0) * 75u;
  let lhs0_by3 = min(4u * lhs0_quad + 3u, 19u - m0) * 75u;
  var lhs0_at = 75u * m0 + ((lhs0_k + slice * 16u) / 4u);
  let rhs0_piece = id;
  let rhs0_quad = rhs0_piece % 8u;
  let rhs0_k = rhs0_piece / 8u;
  var rhs0_0: vec4<f32>;
  var rhs0_at = (n0 / 4u + min(rhs0_quad, 5u - n0 / 4u)) + 6u * (rhs0_k + slice * 16u);
  let rhs1_piece = id + 64u;
  let rhs1_quad = rhs1_piece % 8u;
  let rhs1_k = rhs1_piece / 8u;
  var rhs1_0: vec4<f32>;
  var rhs1_at = (n0 / 4u + min(rhs1_quad, 5u - n0 / 4u)) + 6u * (rhs1_k + slice * 16u);
  var k0 = slice * 16u;
  lhs0_0 = vec4<f32>();
  lhs0_1 = vec4<f32>();
  lhs0_2 = vec4<f32>();
  lhs0_3 = vec4<f32>();
  if (lhs0_piece < 32u && k0 + lhs0_k < 300u) {
    lhs0_0 = in0[lhs0_at + lhs0_by0];
    lhs0_1 = in0[lhs0_at + lhs0_by1];
    lhs0_2 = in0[lhs0_at + lhs0_by2];
    lhs0_3 = in0[lhs0_at + lhs0_by3];
  }
  rhs0_0 = vec4<f32>();
  if (k0 + rhs0_k < 300u) {
    rhs0_0 = in1[rhs0_at];
  }
  rhs1_0 = vec4<f32>();
  if (k0 + rhs1_k < 300u) {
    rhs1_0 = in1[rhs1_at];
  }
  for (var step = 0u; step < 10u; step++) {
    if (lhs0_piece < 32u) {
      lhs_tile[lhs_start + (lhs0_k) * 9u + lhs0_quad] = vec4<f32>(lhs0_0[0], lhs0_1[0], lhs0_2[0], lhs0_3[0]);
      lhs_tile[lhs_start + (lhs0_k + 1u) * 9u + lhs0_quad] = vec4<f32>(lhs0_0[1], lhs0_1[1], lhs0_2[1], lhs0_3[1]);
      lhs_tile[lhs_start + (lhs0_k + 2u) * 9u + lhs0_quad] = vec4<f32>(lhs0_0[2], lhs0_1[2], lhs0_2[2], lhs0_3[2]);
      lhs_tile[lhs_start + (lhs0_k + 3u) * 9u + lhs0_quad] = vec4<f32>(lhs0_0[3], lhs0_1[3], lhs0_2[3], lhs0_3[3]);
    }
    rhs_tile[rhs_start + (rhs0_k) * 8u + rhs0_quad] = rhs0_0;
    rhs_tile[rhs_start + (rhs1_k) * 8u + rhs1_quad] = rhs1_0;
    workgroupBarrier();
    if (step < 9u) {
      k0 += 32u;
      lhs0_at += 8u;
      rhs0_at += 192u;
      rhs1_at += 192u;
      lhs0_0 = vec4<f32>();
      lhs0_1 = vec4<f32>();
      lhs0_2 = vec4<f32>();
      lhs0_3 = vec4<f32>();
      if (lhs0_piece < 32u && k0 + lhs0_k < 300u) {
        lhs0_0 = in0[lhs0_at + lhs0_by0];
        lhs0_1 = in0[lhs0_at + lhs0_by1];
        lhs0_2 = in0[lhs0_at + lhs0_by2];
        lhs0_3 = in0[lhs0_at + lhs0_by3];
      }
      rhs0_0 = vec4<f32>();
      if (k0 + rhs0_k < 300u) {
        rhs0_0 = in1[rhs0_at];
      }
      rhs1_0 = vec4<f32>();
      if (k0 + rhs1_k < 300u) {
        rhs1_0 = in1[rhs1_at];
      }
    }
    for (var part = 0u; part < 2u; part++) {
      let lhs_from = lhs_start + part * 72u + y;
      let rhs_from = rhs_start + part * 64u + x;
      let a0_0 = lhs_tile[lhs_from];
      let b0_0 = rhs_tile[rhs_from];
      acc0_0 = fma(vec4<f32>(a0_0[0]), b0_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a0_0[1]), b0_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a0_0[2]), b0_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a0_0[3]), b0_0, acc3_0);
      let a1_0 = lhs_tile[lhs_from + 9u];
      let b1_0 = rhs_tile[rhs_from + 8u];
      acc0_0 = fma(vec4<f32>(a1_0[0]), b1_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a1_0[1]), b1_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a1_0[2]), b1_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a1_0[3]), b1_0, acc3_0);
      let a2_0 = lhs_tile[lhs_from + 18u];
      let b2_0 = rhs_tile[rhs_from + 16u];
      acc0_0 = fma(vec4<f32>(a2_0[0]), b2_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a2_0[1]), b2_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a2_0[2]), b2_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a2_0[3]), b2_0, acc3_0);
      let a3_0 = lhs_tile[lhs_from + 27u];
      let b3_0 = rhs_tile[rhs_from + 24u];
      acc0_0 = fma(vec4<f32>(a3_0[0]), b3_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a3_0[1]), b3_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a3_0[2]), b3_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a3_0[3]), b3_0, acc3_0);
      let a4_0 = lhs_tile[lhs_from + 36u];
      let b4_0 = rhs_tile[rhs_from + 32u];
      acc0_0 = fma(vec4<f32>(a4_0[0]), b4_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a4_0[1]), b4_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a4_0[2]), b4_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a4_0[3]), b4_0, acc3_0);
      let a5_0 = lhs_tile[lhs_from + 45u];
      let b5_0 = rhs_tile[rhs_from + 40u];
      acc0_0 = fma(vec4<f32>(a5_0[0]), b5_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a5_0[1]), b5_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a5_0[2]), b5_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a5_0[3]), b5_0, acc3_0);
      let a6_0 = lhs_tile[lhs_from + 54u];
      let b6_0 = rhs_tile[rhs_from + 48u];
      acc0_0 = fma(vec4<f32>(a6_0[0]), b6_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a6_0[1]), b6_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a6_0[2]), b6_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a6_0[3]), b6_0, acc3_0);
      let a7_0 = lhs_tile[lhs_from + 63u];
      let b7_0 = rhs_tile[rhs_from + 56u];
      acc0_0 = fma(vec4<f32>(a7_0[0]), b7_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a7_0[1]), b7_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a7_0[2]), b7_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a7_0[3]), b7_0, acc3_0);
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
  let gathered0_0 = gather(m0 + 4u * y, n0 / 4u + x);
  let gathered1_0 = gather(m0 + 4u * y + 1u, n0 / 4u + x);
  let gathered2_0 = gather(m0 + 4u * y + 2u, n0 / 4u + x);
  let gathered3_0 = gather(m0 + 4u * y + 3u, n0 / 4u + x);
  finish(m0 + 4u * y, n0 / 4u + x, acc0_0, gathered0_0);
  finish(m0 + 4u * y + 1u, n0 / 4u + x, acc1_0, gathered1_0);
  finish(m0 + 4u * y + 2u, n0 / 4u + x, acc2_0, gathered2_0);
  finish(m0 + 4u * y + 3u, n0 / 4u + x, acc3_0, gathered3_0);
}
// 1 x 1 x 1 workgroups of 128 threads, 8704 bytes shared
