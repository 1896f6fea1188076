// RUN: not pirkit-opt %s -p 'infer-meta{bind=x:4x3}' | filecheck %s

// A size that was fixed when the program was captured contradicts the one bound here.
// CHECK: error[PK0801]
// CHECK-SAME: is declared `tensor<5x3xf32>` but is `tensor<4x3xf32>`
// CHECK: infer_meta_conflict.mlir:8:3
pir.program @main(%x "x" : tensor<?x3xf32>) {
  %a = pd_op.relu(%x) : (tensor<?x3xf32>) -> tensor<5x3xf32>
}
