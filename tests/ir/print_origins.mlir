// RUN: pirkit-opt %s -p print-origins --remarks 2>&1 | filecheck %s

// What rules have made folds back to what it was made from, in stretches. This is what
// `decompose{only=silu},autodiff{wrt=x},dce` gives for exp(silu(x)).
// CHECK:         analysis: print-origins: parts of silu: sigmoid multiply
// CHECK:         analysis: print-origins: as written: exp
// CHECK:         analysis: print-origins: derivative of silu, order 1: multiply multiply full subtract multiply multiply
// CHECK:         analysis: print-origins: derivative of data, order 1: add
// CHECK:         analysis: print-origins: series of data: multiply
// CHECK-NOT:     as written
// CHECK-LABEL:   pir.program @main
pir.program @main(%x "x" : tensor<2xf32>) {
  %0 = pd_op.sigmoid(%x) {comp_op_name = "silu", comp_rule = "decompose"} : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.multiply(%x, %0) {comp_op_name = "silu", comp_rule = "decompose"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %z = pd_op.exp(%y) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%z) {output_name = "z"} : (tensor<2xf32>) -> ()
  %1 = pd_op.multiply(%z, %0) {comp_op_name = "silu", comp_rule = "vjp", comp_order = 1 : i32} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = pd_op.multiply(%z, %x) {comp_op_name = "silu", comp_rule = "vjp", comp_order = 1 : i32} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = pd_op.full() {shape = array<i64>, value = 1.000000e+00 : f64, dtype = #pir.dtype<float32>, comp_op_name = "silu", comp_rule = "vjp", comp_order = 1 : i32} : () -> tensor<f32>
  %4 = pd_op.subtract(%3, %0) {comp_op_name = "silu", comp_rule = "vjp", comp_order = 1 : i32} : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = pd_op.multiply(%0, %4) {comp_op_name = "silu", comp_rule = "vjp", comp_order = 1 : i32} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %6 = pd_op.multiply(%2, %5) {comp_op_name = "silu", comp_rule = "vjp", comp_order = 1 : i32} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %7 = pd_op.add(%1, %6) {comp_op_name = "data", comp_rule = "vjp", comp_order = 1 : i32} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%7) {output_name = "x_grad"} : (tensor<2xf32>) -> ()
  %8 = pd_op.multiply(%x, %x) {comp_op_name = "data", comp_rule = "jet"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%8) {output_name = "u"} : (tensor<2xf32>) -> ()
}

// -----
// A pass of the user is a rule of its own name.
// CHECK:         analysis: print-origins: sin-to-cos from sin: cos
// CHECK-LABEL:   pir.program @rewritten
pir.program @rewritten(%x "x" : tensor<2xf32>) {
  %0 = pd_op.cos(%x) {comp_op_name = "sin", comp_rule = "sin-to-cos"} : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%0) {output_name = "z"} : (tensor<2xf32>) -> ()
}

// -----
// An order that is no integer is none.
// CHECK:         analysis: print-origins: derivative of sin: cos
// CHECK-LABEL:   pir.program @disordered
pir.program @disordered(%x "x" : tensor<2xf32>) {
  %0 = pd_op.cos(%x) {comp_op_name = "sin", comp_rule = "vjp", comp_order = "first"} : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%0) {output_name = "z"} : (tensor<2xf32>) -> ()
}
