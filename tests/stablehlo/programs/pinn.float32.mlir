module @jit_pinn attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<7x2xf32>, %arg1: tensor<2x8xf32>, %arg2: tensor<8xf32>) -> (tensor<f32> {jax.result_info = "result[0][0]"}, tensor<7xf32> {jax.result_info = "result[0][1]"}, tensor<2x8xf32> {jax.result_info = "result[1][0]"}, tensor<8xf32> {jax.result_info = "result[1][1]"}) {
    %cst = stablehlo.constant dense<7.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<7x2xf32>, tensor<2x8xf32>) -> tensor<7x8xf32>
    %1 = stablehlo.tanh %0 : tensor<7x8xf32>
    %2 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<7x8xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<7x8xf32>
    %4 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<7x8xf32>
    %5 = stablehlo.subtract %4, %1 : tensor<7x8xf32>
    %6 = stablehlo.dot_general %cst_2, %arg2, contracting_dims = [] x [] : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<7x8xf32>
    %9 = stablehlo.multiply %8, %5 : tensor<7x8xf32>
    %10 = stablehlo.multiply %9, %1 : tensor<7x8xf32>
    %11 = stablehlo.add %9, %10 : tensor<7x8xf32>
    %12 = stablehlo.dot_general %11, %arg1, contracting_dims = [1] x [1] : (tensor<7x8xf32>, tensor<2x8xf32>) -> tensor<7x2xf32>
    %13 = stablehlo.slice %12 [0:7, 1:2] : (tensor<7x2xf32>) -> tensor<7x1xf32>
    %14 = stablehlo.reshape %13 : (tensor<7x1xf32>) -> tensor<7xf32>
    %15 = stablehlo.iota dim = 0 : tensor<2x2xi64>
    %16 = stablehlo.iota dim = 1 : tensor<2x2xi64>
    %17 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<2x2xi64>
    %18 = stablehlo.add %15, %17 : tensor<2x2xi64>
    %19 = stablehlo.compare EQ, %18, %16, SIGNED : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi1>
    %20 = stablehlo.convert %19 : (tensor<2x2xi1>) -> tensor<2x2xf32>
    %21 = stablehlo.slice %20 [0:2, 0:2] : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %22 = stablehlo.convert %21 : tensor<2x2xf32>
    %23 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<7x2xf32>, tensor<2x8xf32>) -> tensor<7x8xf32>
    %24 = stablehlo.dot_general %22, %arg1, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
    %25 = stablehlo.tanh %23 : tensor<7x8xf32>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<7x8xf32>
    %27 = stablehlo.subtract %26, %25 : tensor<7x8xf32>
    %28 = stablehlo.broadcast_in_dim %25, dims = [0, 2] : (tensor<7x8xf32>) -> tensor<7x1x8xf32>
    %29 = stablehlo.broadcast_in_dim %24, dims = [1, 2] : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<1x2x8xf32>) -> tensor<7x2x8xf32>
    %31 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<7x1x8xf32>) -> tensor<7x2x8xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<7x2x8xf32>
    %33 = stablehlo.broadcast_in_dim %24, dims = [1, 2] : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<1x2x8xf32>) -> tensor<7x2x8xf32>
    %35 = stablehlo.add %34, %32 : tensor<7x2x8xf32>
    %36 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<7x8xf32>
    %37 = stablehlo.subtract %36, %25 : tensor<7x8xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 2] : (tensor<7x8xf32>) -> tensor<7x1x8xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<7x1x8xf32>) -> tensor<7x2x8xf32>
    %40 = stablehlo.multiply %35, %39 : tensor<7x2x8xf32>
    %41 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<7x8xf32>
    %42 = stablehlo.subtract %41, %25 : tensor<7x8xf32>
    %43 = stablehlo.negate %40 : tensor<7x2x8xf32>
    %44 = stablehlo.iota dim = 0 : tensor<1x1xi64>
    %45 = stablehlo.iota dim = 1 : tensor<1x1xi64>
    %46 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<1x1xi64>
    %47 = stablehlo.add %44, %46 : tensor<1x1xi64>
    %48 = stablehlo.compare EQ, %47, %45, SIGNED : (tensor<1x1xi64>, tensor<1x1xi64>) -> tensor<1x1xi1>
    %49 = stablehlo.convert %48 : (tensor<1x1xi1>) -> tensor<1x1xf32>
    %50 = stablehlo.slice %49 [0:1, 0:1] : (tensor<1x1xf32>) -> tensor<1x1xf32>
    %51 = stablehlo.reshape %50 : (tensor<1x1xf32>) -> tensor<1xf32>
    %52 = stablehlo.convert %51 : tensor<1xf32>
    %53 = stablehlo.dot_general %52, %arg2, contracting_dims = [] x [] : (tensor<1xf32>, tensor<8xf32>) -> tensor<1x8xf32>
    %54 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<7x8xf32>) -> tensor<7x1x8xf32>
    %55 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 3] : (tensor<7x2x8xf32>) -> tensor<7x2x1x8xf32>
    %56 = stablehlo.broadcast_in_dim %53, dims = [1, 2] : (tensor<1x8xf32>) -> tensor<1x1x8xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<7x1x8xf32>
    %58 = stablehlo.multiply %57, %54 : tensor<7x1x8xf32>
    %59 = stablehlo.broadcast_in_dim %53, dims = [1, 2] : (tensor<1x8xf32>) -> tensor<1x1x8xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [1, 2, 3] : (tensor<1x1x8xf32>) -> tensor<1x1x1x8xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<7x2x1x8xf32>
    %62 = stablehlo.multiply %61, %55 : tensor<7x2x1x8xf32>
    %63 = stablehlo.broadcast_in_dim %25, dims = [0, 2] : (tensor<7x8xf32>) -> tensor<7x1x8xf32>
    %64 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 3] : (tensor<7x2x8xf32>) -> tensor<7x2x1x8xf32>
    %65 = stablehlo.broadcast_in_dim %63, dims = [0, 2, 3] : (tensor<7x1x8xf32>) -> tensor<7x1x1x8xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<7x1x1x8xf32>) -> tensor<7x2x1x8xf32>
    %67 = stablehlo.multiply %62, %66 : tensor<7x2x1x8xf32>
    %68 = stablehlo.broadcast_in_dim %58, dims = [0, 2, 3] : (tensor<7x1x8xf32>) -> tensor<7x1x1x8xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<7x1x1x8xf32>) -> tensor<7x2x1x8xf32>
    %70 = stablehlo.multiply %69, %64 : tensor<7x2x1x8xf32>
    %71 = stablehlo.add %67, %70 : tensor<7x2x1x8xf32>
    %72 = stablehlo.add %62, %71 : tensor<7x2x1x8xf32>
    %73 = stablehlo.dot_general %72, %arg1, contracting_dims = [3] x [1] : (tensor<7x2x1x8xf32>, tensor<2x8xf32>) -> tensor<7x2x1x2xf32>
    %74 = stablehlo.slice %73 [0:7, 0:2, 0:1, 0:2] : (tensor<7x2x1x2xf32>) -> tensor<7x2x1x2xf32>
    %75 = stablehlo.reshape %74 : (tensor<7x2x1x2xf32>) -> tensor<7x2x2xf32>
    %76 = stablehlo.transpose %75, dims = [0, 2, 1] : (tensor<7x2x2xf32>) -> tensor<7x2x2xf32>
    %77 = stablehlo.slice %76 [0:7, 0:2, 0:2] : (tensor<7x2x2xf32>) -> tensor<7x2x2xf32>
    %78 = stablehlo.slice %77 [0:7, 0:1, 0:1] : (tensor<7x2x2xf32>) -> tensor<7x1x1xf32>
    %79 = stablehlo.reshape %78 : (tensor<7x1x1xf32>) -> tensor<7xf32>
    %80 = stablehlo.subtract %14, %79 : tensor<7xf32>
    %81 = stablehlo.multiply %80, %80 : tensor<7xf32>
    %82 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %83 = stablehlo.multiply %82, %80 : tensor<7xf32>
    %84 = stablehlo.reduce(%81 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
    %85 = stablehlo.divide %84, %cst : tensor<f32>
    %86 = stablehlo.divide %cst_2, %cst : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %88 = stablehlo.multiply %87, %83 : tensor<7xf32>
    %89 = stablehlo.negate %88 : tensor<7xf32>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0] : (tensor<7xf32>) -> tensor<7x1x1xf32>
    %91 = stablehlo.pad %90, %cst_0, low = [0, 0, 0], high = [0, 1, 1], interior = [0, 0, 0] : (tensor<7x1x1xf32>, tensor<f32>) -> tensor<7x2x2xf32>
    %92 = stablehlo.transpose %91, dims = [0, 2, 1] : (tensor<7x2x2xf32>) -> tensor<7x2x2xf32>
    %93 = stablehlo.reshape %92 : (tensor<7x2x2xf32>) -> tensor<7x2x1x2xf32>
    %94 = stablehlo.dot_general %93, %72, contracting_dims = [0, 1, 2] x [0, 1, 2] : (tensor<7x2x1x2xf32>, tensor<7x2x1x8xf32>) -> tensor<2x8xf32>
    %95 = stablehlo.dot_general %93, %arg1, contracting_dims = [3] x [0] : (tensor<7x2x1x2xf32>, tensor<2x8xf32>) -> tensor<7x2x1x8xf32>
    %96 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<7x1x1x8xf32>) -> tensor<7x2x1x8xf32>
    %97 = stablehlo.multiply %96, %95 : tensor<7x2x1x8xf32>
    %98 = stablehlo.multiply %95, %64 : tensor<7x2x1x8xf32>
    %99 = stablehlo.reduce(%98 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x2x1x8xf32>, tensor<f32>) -> tensor<7x1x8xf32>
    %100 = stablehlo.reshape %99 : (tensor<7x1x8xf32>) -> tensor<7x1x1x8xf32>
    %101 = stablehlo.reduce(%100 init: %cst_0) applies stablehlo.add across dimensions = [1, 2] : (tensor<7x1x1x8xf32>, tensor<f32>) -> tensor<7x8xf32>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0, 2] : (tensor<7x8xf32>) -> tensor<7x1x8xf32>
    %103 = stablehlo.multiply %62, %95 : tensor<7x2x1x8xf32>
    %104 = stablehlo.reduce(%103 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x2x1x8xf32>, tensor<f32>) -> tensor<7x1x8xf32>
    %105 = stablehlo.reshape %104 : (tensor<7x1x8xf32>) -> tensor<7x1x1x8xf32>
    %106 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<7x1x1x8xf32>) -> tensor<7x2x1x8xf32>
    %107 = stablehlo.multiply %95, %106 : tensor<7x2x1x8xf32>
    %108 = stablehlo.add %95, %107 : tensor<7x2x1x8xf32>
    %109 = stablehlo.reduce(%105 init: %cst_0) applies stablehlo.add across dimensions = [1, 2] : (tensor<7x1x1x8xf32>, tensor<f32>) -> tensor<7x8xf32>
    %110 = stablehlo.broadcast_in_dim %109, dims = [0, 2] : (tensor<7x8xf32>) -> tensor<7x1x8xf32>
    %111 = stablehlo.reduce(%97 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<7x2x1x8xf32>, tensor<f32>) -> tensor<7x2x8xf32>
    %112 = stablehlo.reduce(%110 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x1x8xf32>, tensor<f32>) -> tensor<7x8xf32>
    %113 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<7x2x1x8xf32>
    %114 = stablehlo.multiply %113, %108 : tensor<7x2x1x8xf32>
    %115 = stablehlo.multiply %108, %55 : tensor<7x2x1x8xf32>
    %116 = stablehlo.reduce(%115 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<7x2x1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
    %117 = stablehlo.reshape %116 : (tensor<1x8xf32>) -> tensor<1x1x1x8xf32>
    %118 = stablehlo.reduce(%117 init: %cst_0) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %119 = stablehlo.broadcast_in_dim %118, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %120 = stablehlo.reduce(%119 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %122 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<7x1x8xf32>
    %123 = stablehlo.multiply %122, %102 : tensor<7x1x8xf32>
    %124 = stablehlo.multiply %102, %54 : tensor<7x1x8xf32>
    %125 = stablehlo.reduce(%124 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7x1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
    %126 = stablehlo.reshape %125 : (tensor<1x8xf32>) -> tensor<1x1x8xf32>
    %127 = stablehlo.reduce(%126 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %129 = stablehlo.add %121, %128 : tensor<1x8xf32>
    %130 = stablehlo.reduce(%114 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<7x2x1x8xf32>, tensor<f32>) -> tensor<7x2x8xf32>
    %131 = stablehlo.reduce(%123 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x1x8xf32>, tensor<f32>) -> tensor<7x8xf32>
    %132 = stablehlo.dot_general %129, %52, contracting_dims = [0] x [0] : (tensor<1x8xf32>, tensor<1xf32>) -> tensor<8xf32>
    %133 = stablehlo.negate %130 : tensor<7x2x8xf32>
    %134 = stablehlo.add %111, %133 : tensor<7x2x8xf32>
    %135 = stablehlo.negate %131 : tensor<7x8xf32>
    %136 = stablehlo.add %112, %135 : tensor<7x8xf32>
    %137 = stablehlo.multiply %35, %134 : tensor<7x2x8xf32>
    %138 = stablehlo.reduce(%137 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x2x8xf32>, tensor<f32>) -> tensor<7x8xf32>
    %139 = stablehlo.reshape %138 : (tensor<7x8xf32>) -> tensor<7x1x8xf32>
    %140 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<7x1x8xf32>) -> tensor<7x2x8xf32>
    %141 = stablehlo.multiply %134, %140 : tensor<7x2x8xf32>
    %142 = stablehlo.reduce(%139 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x1x8xf32>, tensor<f32>) -> tensor<7x8xf32>
    %143 = stablehlo.negate %142 : tensor<7x8xf32>
    %144 = stablehlo.add %136, %143 : tensor<7x8xf32>
    %145 = stablehlo.reduce(%141 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7x2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %146 = stablehlo.reshape %145 : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %147 = stablehlo.reduce(%146 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<1x2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %148 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<1x2x8xf32>) -> tensor<7x2x8xf32>
    %149 = stablehlo.multiply %148, %141 : tensor<7x2x8xf32>
    %150 = stablehlo.reduce(%149 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x2x8xf32>, tensor<f32>) -> tensor<7x8xf32>
    %151 = stablehlo.reshape %150 : (tensor<7x8xf32>) -> tensor<7x1x8xf32>
    %152 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<7x1x8xf32>) -> tensor<7x2x8xf32>
    %153 = stablehlo.multiply %141, %152 : tensor<7x2x8xf32>
    %154 = stablehlo.reduce(%153 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7x2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %155 = stablehlo.reshape %154 : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %156 = stablehlo.reduce(%155 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<1x2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %157 = stablehlo.add %147, %156 : tensor<2x8xf32>
    %158 = stablehlo.reduce(%151 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<7x1x8xf32>, tensor<f32>) -> tensor<7x8xf32>
    %159 = stablehlo.add %144, %158 : tensor<7x8xf32>
    %160 = stablehlo.multiply %159, %27 : tensor<7x8xf32>
    %161 = stablehlo.multiply %160, %25 : tensor<7x8xf32>
    %162 = stablehlo.add %160, %161 : tensor<7x8xf32>
    %163 = stablehlo.dot_general %157, %22, contracting_dims = [0] x [0] : (tensor<2x8xf32>, tensor<2x2xf32>) -> tensor<8x2xf32>
    %164 = stablehlo.transpose %163, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %165 = stablehlo.add %94, %164 : tensor<2x8xf32>
    %166 = stablehlo.dot_general %162, %arg0, contracting_dims = [0] x [0] : (tensor<7x8xf32>, tensor<7x2xf32>) -> tensor<8x2xf32>
    %167 = stablehlo.transpose %166, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %168 = stablehlo.add %165, %167 : tensor<2x8xf32>
    %169 = stablehlo.broadcast_in_dim %88, dims = [0] : (tensor<7xf32>) -> tensor<7x1xf32>
    %170 = stablehlo.pad %169, %cst_0, low = [0, 1], high = [0, 0], interior = [0, 0] : (tensor<7x1xf32>, tensor<f32>) -> tensor<7x2xf32>
    %171 = stablehlo.dot_general %170, %11, contracting_dims = [0] x [0] : (tensor<7x2xf32>, tensor<7x8xf32>) -> tensor<2x8xf32>
    %172 = stablehlo.add %168, %171 : tensor<2x8xf32>
    %173 = stablehlo.dot_general %170, %arg1, contracting_dims = [1] x [0] : (tensor<7x2xf32>, tensor<2x8xf32>) -> tensor<7x8xf32>
    %174 = stablehlo.multiply %9, %173 : tensor<7x8xf32>
    %175 = stablehlo.multiply %173, %1 : tensor<7x8xf32>
    %176 = stablehlo.add %173, %175 : tensor<7x8xf32>
    %177 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<7x8xf32>
    %178 = stablehlo.multiply %177, %176 : tensor<7x8xf32>
    %179 = stablehlo.multiply %176, %5 : tensor<7x8xf32>
    %180 = stablehlo.reduce(%179 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<7x8xf32>, tensor<f32>) -> tensor<8xf32>
    %181 = stablehlo.reshape %180 : (tensor<8xf32>) -> tensor<1x8xf32>
    %182 = stablehlo.reduce(%181 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %183 = stablehlo.dot_general %182, %cst_2, contracting_dims = [] x [] : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %184 = stablehlo.add %132, %183 : tensor<8xf32>
    %185 = stablehlo.negate %178 : tensor<7x8xf32>
    %186 = stablehlo.add %174, %185 : tensor<7x8xf32>
    %187 = stablehlo.multiply %186, %3 : tensor<7x8xf32>
    %188 = stablehlo.multiply %187, %1 : tensor<7x8xf32>
    %189 = stablehlo.add %187, %188 : tensor<7x8xf32>
    %190 = stablehlo.dot_general %189, %arg0, contracting_dims = [0] x [0] : (tensor<7x8xf32>, tensor<7x2xf32>) -> tensor<8x2xf32>
    %191 = stablehlo.transpose %190, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %192 = stablehlo.add %172, %191 : tensor<2x8xf32>
    return %85, %80, %192, %184 : tensor<f32>, tensor<7xf32>, tensor<2x8xf32>, tensor<8xf32>
  }
}
