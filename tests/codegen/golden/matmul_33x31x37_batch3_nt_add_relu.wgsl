// kernel matmul_33x31x37_batch3_nt_add_relu
@group(0) @binding(0) var<storage, read> in0: array<f32>;
@group(0) @binding(1) var<storage, read> in1: array<f32>;
@group(0) @binding(2) var<storage, read> in2: array<f32>;
@group(0) @binding(3) var<storage, read> in3: array<f32>;
@group(0) @binding(4) var<storage, read_write> out4: array<f32>;
@group(0) @binding(5) var<storage, read_write> out5: array<f32>;

var<workgroup> lhs_tile: array<vec4<f32>, 144>;
var<workgroup> rhs_tile: array<vec4<f32>, 144>;

fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// NaN stays NaN, even where a compiler takes `x <= 0 ? 0 : x` for the maximum.
fn tg_relu(x: f32) -> f32 {
  return select(max(x, 0.0), x, tg_is_nan(x));
}

fn finish(i0: u32, m: u32, n: u32, acc: vec4<f32>) {
  if (m >= 33u) {
    return;
  }
  if (n < 31u) {
    let load4_0 = in2[n];
    let add5_0 = acc[0] + load4_0;
    let relu6_0 = tg_relu(add5_0);
    let load7_0 = in3[1023u * i0 + 31u * m + n];
    let add8_0 = relu6_0 + load7_0;
    out4[1023u * i0 + 31u * m + n] = relu6_0;
    out5[1023u * i0 + 31u * m + n] = add8_0;
  }
  if (n + 8u < 31u) {
    let load4_1 = in2[(n + 8u)];
    let add5_1 = acc[1] + load4_1;
    let relu6_1 = tg_relu(add5_1);
    let load7_1 = in3[1023u * i0 + 31u * m + (n + 8u)];
    let add8_1 = relu6_1 + load7_1;
    out4[1023u * i0 + 31u * m + (n + 8u)] = relu6_1;
    out5[1023u * i0 + 31u * m + (n + 8u)] = add8_1;
  }
  if (n + 16u < 31u) {
    let load4_2 = in2[(n + 16u)];
    let add5_2 = acc[2] + load4_2;
    let relu6_2 = tg_relu(add5_2);
    let load7_2 = in3[1023u * i0 + 31u * m + (n + 16u)];
    let add8_2 = relu6_2 + load7_2;
    out4[1023u * i0 + 31u * m + (n + 16u)] = relu6_2;
    out5[1023u * i0 + 31u * m + (n + 16u)] = add8_2;
  }
  if (n + 24u < 31u) {
    let load4_3 = in2[(n + 24u)];
    let add5_3 = acc[3] + load4_3;
    let relu6_3 = tg_relu(add5_3);
    let load7_3 = in3[1023u * i0 + 31u * m + (n + 24u)];
    let add8_3 = relu6_3 + load7_3;
    out4[1023u * i0 + 31u * m + (n + 24u)] = relu6_3;
    out5[1023u * i0 + 31u * m + (n + 24u)] = add8_3;
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let tile = group.x;
  let m0 = (tile % 2u) * 32u;
  let n0 = 0u;
  let batch = tile / 2u;
  let i0 = batch;
  let x = local % 8u;
  let y = local / 8u;
  var acc0_0: vec4<f32>;
  var acc1_0: vec4<f32>;
  var acc2_0: vec4<f32>;
  var acc3_0: vec4<f32>;
  let lhs0_piece = local;
  let lhs0_quad = lhs0_piece / 16u;
  let lhs0_k = lhs0_piece % 16u;
  var lhs0_0: vec4<f32>;
  let lhs0_by0 = min(4u * lhs0_quad, 32u - m0) * 37u;
  let lhs0_by1 = min(4u * lhs0_quad + 1u, 32u - m0) * 37u;
  let lhs0_by2 = min(4u * lhs0_quad + 2u, 32u - m0) * 37u;
  let lhs0_by3 = min(4u * lhs0_quad + 3u, 32u - m0) * 37u;
  var lhs0_at = 1221u * i0 + 37u * m0 + (lhs0_k);
  let lhs1_piece = local + 64u;
  let lhs1_quad = lhs1_piece / 16u;
  let lhs1_k = lhs1_piece % 16u;
  var lhs1_0: vec4<f32>;
  let lhs1_by0 = min(4u * lhs1_quad, 32u - m0) * 37u;
  let lhs1_by1 = min(4u * lhs1_quad + 1u, 32u - m0) * 37u;
  let lhs1_by2 = min(4u * lhs1_quad + 2u, 32u - m0) * 37u;
  let lhs1_by3 = min(4u * lhs1_quad + 3u, 32u - m0) * 37u;
  var lhs1_at = 1221u * i0 + 37u * m0 + (lhs1_k);
  let rhs0_piece = local;
  let rhs0_quad = rhs0_piece / 16u;
  let rhs0_k = rhs0_piece % 16u;
  var rhs0_0: vec4<f32>;
  let rhs0_by0 = min(rhs0_quad, 30u - n0) * 37u;
  let rhs0_by1 = min(rhs0_quad + 8u, 30u - n0) * 37u;
  let rhs0_by2 = min(rhs0_quad + 16u, 30u - n0) * 37u;
  let rhs0_by3 = min(rhs0_quad + 24u, 30u - n0) * 37u;
  var rhs0_at = 1147u * i0 + 37u * n0 + (rhs0_k);
  let rhs1_piece = local + 64u;
  let rhs1_quad = rhs1_piece / 16u;
  let rhs1_k = rhs1_piece % 16u;
  var rhs1_0: vec4<f32>;
  let rhs1_by0 = min(rhs1_quad, 30u - n0) * 37u;
  let rhs1_by1 = min(rhs1_quad + 8u, 30u - n0) * 37u;
  let rhs1_by2 = min(rhs1_quad + 16u, 30u - n0) * 37u;
  let rhs1_by3 = min(rhs1_quad + 24u, 30u - n0) * 37u;
  var rhs1_at = 1147u * i0 + 37u * n0 + (rhs1_k);
  var k0 = 0u;
  lhs0_0 = vec4<f32>();
  if (k0 + lhs0_k < 37u) {
    lhs0_0[0] = in0[lhs0_at + lhs0_by0];
    lhs0_0[1] = in0[lhs0_at + lhs0_by1];
    lhs0_0[2] = in0[lhs0_at + lhs0_by2];
    lhs0_0[3] = in0[lhs0_at + lhs0_by3];
  }
  lhs1_0 = vec4<f32>();
  if (k0 + lhs1_k < 37u) {
    lhs1_0[0] = in0[lhs1_at + lhs1_by0];
    lhs1_0[1] = in0[lhs1_at + lhs1_by1];
    lhs1_0[2] = in0[lhs1_at + lhs1_by2];
    lhs1_0[3] = in0[lhs1_at + lhs1_by3];
  }
  rhs0_0 = vec4<f32>();
  if (k0 + rhs0_k < 37u) {
    rhs0_0[0] = in1[rhs0_at + rhs0_by0];
    rhs0_0[1] = in1[rhs0_at + rhs0_by1];
    rhs0_0[2] = in1[rhs0_at + rhs0_by2];
    rhs0_0[3] = in1[rhs0_at + rhs0_by3];
  }
  rhs1_0 = vec4<f32>();
  if (k0 + rhs1_k < 37u) {
    rhs1_0[0] = in1[rhs1_at + rhs1_by0];
    rhs1_0[1] = in1[rhs1_at + rhs1_by1];
    rhs1_0[2] = in1[rhs1_at + rhs1_by2];
    rhs1_0[3] = in1[rhs1_at + rhs1_by3];
  }
  for (var step = 0u; step < 3u; step++) {
    lhs_tile[(lhs0_k) * 9u + lhs0_quad] = lhs0_0;
    lhs_tile[(lhs1_k) * 9u + lhs1_quad] = lhs1_0;
    rhs_tile[(rhs0_k) * 9u + rhs0_quad] = rhs0_0;
    rhs_tile[(rhs1_k) * 9u + rhs1_quad] = rhs1_0;
    workgroupBarrier();
    if (step < 2u) {
      k0 += 16u;
      lhs0_at += 16u;
      lhs1_at += 16u;
      rhs0_at += 16u;
      rhs1_at += 16u;
      lhs0_0 = vec4<f32>();
      if (k0 + lhs0_k < 37u) {
        lhs0_0[0] = in0[lhs0_at + lhs0_by0];
        lhs0_0[1] = in0[lhs0_at + lhs0_by1];
        lhs0_0[2] = in0[lhs0_at + lhs0_by2];
        lhs0_0[3] = in0[lhs0_at + lhs0_by3];
      }
      lhs1_0 = vec4<f32>();
      if (k0 + lhs1_k < 37u) {
        lhs1_0[0] = in0[lhs1_at + lhs1_by0];
        lhs1_0[1] = in0[lhs1_at + lhs1_by1];
        lhs1_0[2] = in0[lhs1_at + lhs1_by2];
        lhs1_0[3] = in0[lhs1_at + lhs1_by3];
      }
      rhs0_0 = vec4<f32>();
      if (k0 + rhs0_k < 37u) {
        rhs0_0[0] = in1[rhs0_at + rhs0_by0];
        rhs0_0[1] = in1[rhs0_at + rhs0_by1];
        rhs0_0[2] = in1[rhs0_at + rhs0_by2];
        rhs0_0[3] = in1[rhs0_at + rhs0_by3];
      }
      rhs1_0 = vec4<f32>();
      if (k0 + rhs1_k < 37u) {
        rhs1_0[0] = in1[rhs1_at + rhs1_by0];
        rhs1_0[1] = in1[rhs1_at + rhs1_by1];
        rhs1_0[2] = in1[rhs1_at + rhs1_by2];
        rhs1_0[3] = in1[rhs1_at + rhs1_by3];
      }
    }
    for (var part = 0u; part < 2u; part++) {
      let lhs_from = part * 72u + y;
      let rhs_from = part * 72u + x;
      let a0_0 = lhs_tile[lhs_from];
      let b0_0 = rhs_tile[rhs_from];
      acc0_0 = fma(vec4<f32>(a0_0[0]), b0_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a0_0[1]), b0_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a0_0[2]), b0_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a0_0[3]), b0_0, acc3_0);
      let a1_0 = lhs_tile[lhs_from + 9u];
      let b1_0 = rhs_tile[rhs_from + 9u];
      acc0_0 = fma(vec4<f32>(a1_0[0]), b1_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a1_0[1]), b1_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a1_0[2]), b1_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a1_0[3]), b1_0, acc3_0);
      let a2_0 = lhs_tile[lhs_from + 18u];
      let b2_0 = rhs_tile[rhs_from + 18u];
      acc0_0 = fma(vec4<f32>(a2_0[0]), b2_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a2_0[1]), b2_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a2_0[2]), b2_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a2_0[3]), b2_0, acc3_0);
      let a3_0 = lhs_tile[lhs_from + 27u];
      let b3_0 = rhs_tile[rhs_from + 27u];
      acc0_0 = fma(vec4<f32>(a3_0[0]), b3_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a3_0[1]), b3_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a3_0[2]), b3_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a3_0[3]), b3_0, acc3_0);
      let a4_0 = lhs_tile[lhs_from + 36u];
      let b4_0 = rhs_tile[rhs_from + 36u];
      acc0_0 = fma(vec4<f32>(a4_0[0]), b4_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a4_0[1]), b4_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a4_0[2]), b4_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a4_0[3]), b4_0, acc3_0);
      let a5_0 = lhs_tile[lhs_from + 45u];
      let b5_0 = rhs_tile[rhs_from + 45u];
      acc0_0 = fma(vec4<f32>(a5_0[0]), b5_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a5_0[1]), b5_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a5_0[2]), b5_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a5_0[3]), b5_0, acc3_0);
      let a6_0 = lhs_tile[lhs_from + 54u];
      let b6_0 = rhs_tile[rhs_from + 54u];
      acc0_0 = fma(vec4<f32>(a6_0[0]), b6_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a6_0[1]), b6_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a6_0[2]), b6_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a6_0[3]), b6_0, acc3_0);
      let a7_0 = lhs_tile[lhs_from + 63u];
      let b7_0 = rhs_tile[rhs_from + 63u];
      acc0_0 = fma(vec4<f32>(a7_0[0]), b7_0, acc0_0);
      acc1_0 = fma(vec4<f32>(a7_0[1]), b7_0, acc1_0);
      acc2_0 = fma(vec4<f32>(a7_0[2]), b7_0, acc2_0);
      acc3_0 = fma(vec4<f32>(a7_0[3]), b7_0, acc3_0);
    }
    workgroupBarrier();
  }
  finish(i0, m0 + 4u * y, n0 + x, acc0_0);
  finish(i0, m0 + 4u * y + 1u, n0 + x, acc1_0);
  finish(i0, m0 + 4u * y + 2u, n0 + x, acc2_0);
  finish(i0, m0 + 4u * y + 3u, n0 + x, acc3_0);
}
// 6 x 1 x 1 workgroups of 64 threads, 4608 bytes shared
