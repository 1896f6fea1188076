// RUN: pirkit-opt %s -p split --remarks 2>&1 | filecheck %s

// The example that in-place sources were invented for: `mean2` is what batch normalisation has
// written into the parameter. It is returned, and it is no second name of the parameter's storage:
// the output has the name of the parameter.
// CHECK-LABEL:   pir.program @forward
// CHECK-SAME:      fp = ["parameter_1", "variance"], fm = [{{.*}}], fo = ["y", "parameter_1"]
// CHECK:           %mean2, {{.*}} = pd_op.batch_norm_(%x, %mean1,
// CHECK-NOT:       assign
// CHECK-NOT:       output_name = "mean"
// CHECK:           pir.shadow_output(%mean1) {output_name = "parameter_1"}
// CHECK-LABEL:   pir.program @backward
// CHECK-SAME:      bo_g = ["output_grad_0", unit]
pir.program @main(%x "x" : tensor<2x3xf32>) {
  %mean1 = pir.parameter() {parameter_name = "parameter_1", stop_gradient = array<i1: true>} : () -> tensor<3xf32>
  %var1 = pir.parameter() {parameter_name = "variance", stop_gradient = array<i1: true>} : () -> tensor<3xf32>
  %y, %mean2, %var2, %m, %v, %r = pd_op.batch_norm_(%x, %mean1, %var1, none, none) {is_test = false, momentum = 0.9 : f32, epsilon = 1.0e-05 : f32, data_format = "NCHW", use_global_stats = false, trainable_statistics = false, stop_gradient = array<i1: false, true, true, true, true, true>} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, none, none) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<?xui8>)
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x3xf32>) -> ()
  pir.shadow_output(%mean2) {output_name = "mean"} : (tensor<3xf32>) -> ()
}

// -----
// As the original splitter sees it: gradients are there, and the backward reads `mean2`. It becomes
// a middle under the name of its source, and the backward takes the parameter.
// CHECK-LABEL:   pir.program @forward
// CHECK-SAME:      fm = ["parameter_1"], fo = ["y"]
// CHECK-NOT:       output_name = "middle
// CHECK-LABEL:   pir.program @backward(
// CHECK-SAME:      "parameter_1" : tensor<3xf32>
// CHECK-SAME:      bp = ["parameter_1"], bm = ["parameter_1"], bo = [unit], bo_g = ["y_grad"], bx_g = ["x_grad"]
pir.program @main(%x "x" : tensor<3xf32>, %g "y_grad" : tensor<3xf32>) {
  %mean1 = pir.parameter() {parameter_name = "parameter_1", stop_gradient = array<i1: true>} : () -> tensor<3xf32>
  %mean2 = pd_op.scale_(%mean1) {scale = 0.9 : f64} : (tensor<3xf32>) -> tensor<3xf32>
  %y = pd_op.multiply(%x, %mean2) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<3xf32>) -> ()
  %gx = pd_op.multiply(%g, %mean2) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  pir.shadow_output(%gx) {output_name = "x_grad"} : (tensor<3xf32>) -> ()
}

// -----
// A buffer is read, then written; the backward needs what was read, so a copy of it is kept.
// CHECK:         copied %b before `pd_op.assign_out_`
// CHECK:         saves middle_0: 12 bytes, copy
// CHECK-LABEL:   pir.program @forward
// CHECK:           [[OLD:%.*]] = pd_op.assign(%b)
// CHECK-NEXT:      pd_op.assign_out_({{.*}}, %b)
// CHECK-NEXT:      pir.shadow_output([[OLD]]) {output_name = "middle_0"}
pir.program @main(%x "x" : tensor<3xf32>) {
  %b = pir.parameter() {parameter_name = "buffer", stop_gradient = array<i1: true>} : () -> tensor<3xf32>
  %y = pd_op.multiply(%x, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %n = pd_op.assign_out_(%x, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<3xf32>) -> ()
}
