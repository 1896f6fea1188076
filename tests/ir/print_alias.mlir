// RUN: pirkit-opt %s -p print-alias --remarks 2>&1 | filecheck %s

// The example that in-place chains were invented for: the mean that leaves batch normalisation is
// the parameter that went in.
// CHECK:         analysis: print-alias: chain of parameter `parameter_1`: %mean1 v0 -> %mean2 v1 (batch_norm_)
// CHECK:         analysis: print-alias: chain of parameter `variance`: %var1 v0 -> %var2 v1 (batch_norm_)
// CHECK-NOT:     chain
// CHECK-LABEL:   pir.program @seed
pir.program @seed(%x "x" : tensor<2x3xf32>) {
  %mean1 = pir.parameter() {parameter_name = "parameter_1"} : () -> tensor<3xf32>
  %var1 = pir.parameter() {parameter_name = "variance"} : () -> tensor<3xf32>
  %y, %mean2, %var2, %m, %v, %r = pd_op.batch_norm_(%x, %mean1, %var1, none, none) {is_test = false, momentum = 0.9 : f32, epsilon = 1.0e-05 : f32, data_format = "NCHW", use_global_stats = false, trainable_statistics = false} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, none, none) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<?xui8>)
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x3xf32>) -> ()
  pir.shadow_output(%mean2) {output_name = "mean"} : (tensor<3xf32>) -> ()
}

// -----
// Chains in the order of time. A chain need not be a line: the second write takes the parameter, and
// what it writes has been written before. Views belong to it.
// CHECK:         chain of parameter `w`: %w v0 -> %a v1 (relu_) -> %v v1 (share_data_) -> %b v2 (exp_)
// CHECK-NOT:     chain
// CHECK-LABEL:   pir.program @time
pir.program @time(%x "x" : tensor<2xf32>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  %a = pd_op.relu_(%w) : (tensor<2xf32>) -> tensor<2xf32>
  %v = pd_op.share_data_(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.exp_(%w) : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.multiply(%x, %v) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2xf32>) -> ()
}

// -----
// Writes inside regions: a version of its own behind the branch, two around the loop.
// CHECK:         chain of input `x`: %x v0 -> %i v1 (exp_) (print_alias.mlir:6:1)
// CHECK:         chain of input `n`: %n v0 -> %arg v1 -> %inc v2 (increment_) -> %last v3 (while)
// CHECK-LABEL:   pir.program @regions
pir.program @regions(%x "x" : tensor<2xf32>, %n "n" : tensor<1xf32>, %c "c" : tensor<1xi1>, %m "m" : tensor<1xf32>) {
  pd_op.if(%c) : (tensor<1xi1>) -> () {
    %i = pd_op.exp_(%x) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield() : () -> ()
  } else {
    pir.yield() : () -> ()
  }
  %go = pd_op.less_than(%n, %m) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
  %last = pd_op.while(%go, %n) : (tensor<1xi1>, tensor<1xf32>) -> tensor<1xf32> {
  ^bb0(%arg : tensor<1xf32>):
    %inc = pd_op.increment_(%arg) {value = 1.0 : f32} : (tensor<1xf32>) -> tensor<1xf32>
    %again = pd_op.less_than(%inc, %m) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
    pir.yield(%again, %inc) : (tensor<1xi1>, tensor<1xf32>) -> ()
  }
  pir.shadow_output(%last) {output_name = "y"} : (tensor<1xf32>) -> ()
}
