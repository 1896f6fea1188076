// RUN: pirkit-opt %s -p 'quantize{min-elements=1}' | filecheck %s
pir.program @main(%x "x" : tensor<4x64xf32>, %i "i" : tensor<4xi64>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<64x96xf32>
  %t = pir.parameter() {parameter_name = "t"} : () -> tensor<10x64xf32>
  %y = pd_op.matmul(%x, %w) {transpose_x = false, transpose_y = false} : (tensor<4x64xf32>, tensor<64x96xf32>) -> tensor<4x96xf32>
  %e = pd_op.embedding(%i, %t) {padding_idx = -1 : i64, sparse = false} : (tensor<4xi64>, tensor<10x64xf32>) -> tensor<4x64xf32>
  %z = pd_op.matmul(%e, %w) {transpose_x = false, transpose_y = false} : (tensor<4x64xf32>, tensor<64x96xf32>) -> tensor<4x96xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4x96xf32>) -> ()
  pir.shadow_output(%z) {output_name = "z"} : (tensor<4x96xf32>) -> ()
}
