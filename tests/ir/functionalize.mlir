// RUN: pirkit-opt %s -p functionalize | filecheck %s

// A later read of the written value, under any of its names, reads the new one.
// CHECK-LABEL: pir.program @new_version
// CHECK:         [[T:%.*]] = pd_op.cos(%x)
// CHECK-NEXT:    [[V:%.*]] = pd_op.share_data([[T]])
// CHECK-NEXT:    [[Y:%.*]] = pd_op.relu([[T]])
// CHECK-NEXT:    pd_op.exp([[Y]])
// CHECK-NEXT:    pd_op.sin([[Y]])
// CHECK-NOT:     assign_out_
pir.program @new_version(%x "x" : tensor<2xf32>) {
  %t = pd_op.cos(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %v = pd_op.share_data(%t) : (tensor<2xf32>) -> tensor<2xf32>
  %y = pd_op.relu_(%t) : (tensor<2xf32>) -> tensor<2xf32>
  %a = pd_op.exp(%t) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.sin(%v) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<2xf32>) -> ()
}

// -----
// A parameter is written back once; an output that shows it comes behind the last write.
// CHECK-LABEL: pir.program @write_back
// CHECK:         [[P:%.*]] = pir.parameter
// CHECK-NEXT:    [[A:%.*]] = pd_op.relu([[P]])
// CHECK-NEXT:    [[B:%.*]] = pd_op.exp([[A]])
// CHECK-NEXT:    pir.shadow_output([[B]])
// CHECK-NEXT:    pd_op.assign_out_([[B]], [[P]])
// CHECK-NEXT:  }
pir.program @write_back {
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  pir.shadow_output(%p) {output_name = "w_now"} : (tensor<2xf32>) -> ()
  %a = pd_op.relu_(%p) : (tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.exp_(%p) : (tensor<2xf32>) -> tensor<2xf32>
}

// -----
// An element of a list that is written is read anew.
// CHECK-LABEL: pir.program @list
// CHECK:         [[A:%.*]] = pd_op.relu
// CHECK:         [[L:%.*]] = pir.combine([[A]], %x)
// CHECK:         pd_op.add_n([[L]])
pir.program @list(%x "x" : tensor<2xf32>) {
  %t = pd_op.cos(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %l = pir.combine(%t, %x) : (tensor<2xf32>, tensor<2xf32>) -> !pir.vec<tensor<2xf32>, tensor<2xf32>>
  %a = pd_op.relu_(%t) : (tensor<2xf32>) -> tensor<2xf32>
  %s = pd_op.add_n(%l) : (!pir.vec<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<2xf32>) -> ()
}

// -----
// What a branch writes outside is a further result; the other branch hands on what was there.
// CHECK-LABEL: pir.program @branch
// CHECK:         [[T:%.*]] = pd_op.cos
// CHECK:         [[R:%.*]], [[N:%.*]] = pd_op.if
// CHECK-NEXT:      [[A:%.*]] = pd_op.relu([[T]])
// CHECK-NEXT:      pir.yield([[A]], [[A]])
// CHECK:           [[I:%.*]] = pd_op.sin(
// CHECK-NEXT:      pir.yield([[I]], [[T]])
// CHECK:         pd_op.sin([[N]])
pir.program @branch(%x "x" : tensor<2xf32>, %c "c" : tensor<1xi1>) {
  %t = pd_op.cos(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %r = pd_op.if(%c) : (tensor<1xi1>) -> tensor<2xf32> {
    %a = pd_op.relu_(%t) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%a) : (tensor<2xf32>) -> ()
  } else {
    %o = pd_op.exp(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %i = pd_op.sin_(%o) : (tensor<2xf32>) -> tensor<2xf32>
    pir.yield(%o) : (tensor<2xf32>) -> ()
  }
  %b = pd_op.sin(%t) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%b) {output_name = "b"} : (tensor<2xf32>) -> ()
  pir.shadow_output(%r) {output_name = "r"} : (tensor<2xf32>) -> ()
}

// -----
// A loop carries what it writes outside; a parameter is written back once, behind the loop.
// CHECK-LABEL: pir.program @loop
// CHECK:         [[P:%.*]] = pir.parameter
// CHECK:         [[N:%.*]], [[W:%.*]] = pd_op.while(%c, %i, [[P]])
// CHECK-NEXT:    ^bb0(%k: tensor<1xi64>, [[A:%.*]]: tensor<2xf32>):
// CHECK-NEXT:      [[S:%.*]] = pd_op.sin([[A]])
// CHECK:           pir.yield({{.*}}, {{.*}}, [[S]])
// CHECK:         pd_op.assign_out_([[W]], [[P]])
pir.program @loop(%c "c" : tensor<1xi1>, %i "i" : tensor<1xi64>) {
  %p = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>
  %n = pd_op.while(%c, %i) : (tensor<1xi1>, tensor<1xi64>) -> tensor<1xi64> {
  ^bb0(%k : tensor<1xi64>):
    %s = pd_op.sin_(%p) : (tensor<2xf32>) -> tensor<2xf32>
    %next = pd_op.scale(%k) {scale = 1.0 : f64, bias = 1.0 : f32, bias_after_scale = true} : (tensor<1xi64>) -> tensor<1xi64>
    %more = pd_op.less_than(%next, %i) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi1>
    pir.yield(%more, %next) : (tensor<1xi1>, tensor<1xi64>) -> ()
  }
  pir.shadow_output(%n) {output_name = "n"} : (tensor<1xi64>) -> ()
}

// -----
// A write that gives another type is as pure as others: nothing reads the old name.
// CHECK-LABEL: pir.program @retyped_once
// CHECK:         pd_op.reshape(
// CHECK-NEXT:    pd_op.exp(
pir.program @retyped_once(%x "x" : tensor<2x2xf32>) {
  %t = pd_op.cos(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %r = pd_op.reshape_(%t) {shape = array<i64: 4>} : (tensor<2x2xf32>) -> tensor<4xf32>
  %a = pd_op.exp(%r) : (tensor<4xf32>) -> tensor<4xf32>
  pir.shadow_output(%a) {output_name = "a"} : (tensor<4xf32>) -> ()
}
