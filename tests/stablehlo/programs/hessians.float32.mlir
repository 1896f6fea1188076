module @jit_hessians attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x5xf32>) -> (tensor<4x5x5xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.iota dim = 0 : tensor<5x5xi64>
    %1 = stablehlo.iota dim = 1 : tensor<5x5xi64>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<5x5xi64>
    %3 = stablehlo.add %0, %2 : tensor<5x5xi64>
    %4 = stablehlo.compare EQ, %3, %1, SIGNED : (tensor<5x5xi64>, tensor<5x5xi64>) -> tensor<5x5xi1>
    %5 = stablehlo.convert %4 : (tensor<5x5xi1>) -> tensor<5x5xf32>
    %6 = stablehlo.slice %5 [0:5, 0:5] : (tensor<5x5xf32>) -> tensor<5x5xf32>
    %7 = stablehlo.convert %6 : tensor<5x5xf32>
    %8 = stablehlo.sine %arg0 : tensor<4x5xf32>
    %9 = stablehlo.cosine %arg0 : tensor<4x5xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 2] : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %11 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<5x5xf32>) -> tensor<1x5x5xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<1x5x5xf32>) -> tensor<4x5x5xf32>
    %13 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<4x1x5xf32>) -> tensor<4x5x5xf32>
    %14 = stablehlo.multiply %12, %13 : tensor<4x5x5xf32>
    %15 = stablehlo.cosine %arg0 : tensor<4x5xf32>
    %16 = stablehlo.sine %arg0 : tensor<4x5xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 2] : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %18 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<5x5xf32>) -> tensor<1x5x5xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x5x5xf32>) -> tensor<4x5x5xf32>
    %20 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<4x1x5xf32>) -> tensor<4x5x5xf32>
    %21 = stablehlo.multiply %19, %20 : tensor<4x5x5xf32>
    %22 = stablehlo.negate %21 : tensor<4x5x5xf32>
    %23 = stablehlo.slice %8 [0:4, 0:3] : (tensor<4x5xf32>) -> tensor<4x3xf32>
    %24 = stablehlo.slice %14 [0:4, 0:5, 0:3] : (tensor<4x5x5xf32>) -> tensor<4x5x3xf32>
    %25 = stablehlo.slice %8 [0:4, 3:5] : (tensor<4x5xf32>) -> tensor<4x2xf32>
    %26 = stablehlo.slice %14 [0:4, 0:5, 3:5] : (tensor<4x5x5xf32>) -> tensor<4x5x2xf32>
    %27 = stablehlo.pad %25, %cst_2, low = [0, 0], high = [0, 1], interior = [0, 0] : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x3xf32>
    %28 = stablehlo.pad %26, %cst_1, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x5x2xf32>, tensor<f32>) -> tensor<4x5x3xf32>
    %29 = stablehlo.multiply %23, %27 : tensor<4x3xf32>
    %30 = stablehlo.broadcast_in_dim %27, dims = [0, 2] : (tensor<4x3xf32>) -> tensor<4x1x3xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<4x1x3xf32>) -> tensor<4x5x3xf32>
    %32 = stablehlo.multiply %24, %31 : tensor<4x5x3xf32>
    %33 = stablehlo.broadcast_in_dim %23, dims = [0, 2] : (tensor<4x3xf32>) -> tensor<4x1x3xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<4x1x3xf32>) -> tensor<4x5x3xf32>
    %35 = stablehlo.multiply %34, %28 : tensor<4x5x3xf32>
    %36 = stablehlo.add %32, %35 : tensor<4x5x3xf32>
    %37 = stablehlo.slice %29 [0:4, 0:2] : (tensor<4x3xf32>) -> tensor<4x2xf32>
    %38 = stablehlo.slice %36 [0:4, 0:5, 0:2] : (tensor<4x5x3xf32>) -> tensor<4x5x2xf32>
    %39 = stablehlo.slice %29 [0:4, 2:3] : (tensor<4x3xf32>) -> tensor<4x1xf32>
    %40 = stablehlo.slice %36 [0:4, 0:5, 2:3] : (tensor<4x5x3xf32>) -> tensor<4x5x1xf32>
    %41 = stablehlo.pad %39, %cst_2, low = [0, 0], high = [0, 1], interior = [0, 0] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x2xf32>
    %42 = stablehlo.pad %40, %cst_1, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x5x1xf32>, tensor<f32>) -> tensor<4x5x2xf32>
    %43 = stablehlo.multiply %37, %41 : tensor<4x2xf32>
    %44 = stablehlo.broadcast_in_dim %41, dims = [0, 2] : (tensor<4x2xf32>) -> tensor<4x1x2xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<4x1x2xf32>) -> tensor<4x5x2xf32>
    %46 = stablehlo.multiply %38, %45 : tensor<4x5x2xf32>
    %47 = stablehlo.broadcast_in_dim %37, dims = [0, 2] : (tensor<4x2xf32>) -> tensor<4x1x2xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2] : (tensor<4x1x2xf32>) -> tensor<4x5x2xf32>
    %49 = stablehlo.multiply %48, %42 : tensor<4x5x2xf32>
    %50 = stablehlo.add %46, %49 : tensor<4x5x2xf32>
    %51 = stablehlo.slice %43 [0:4, 0:1] : (tensor<4x2xf32>) -> tensor<4x1xf32>
    %52 = stablehlo.slice %50 [0:4, 0:5, 0:1] : (tensor<4x5x2xf32>) -> tensor<4x5x1xf32>
    %53 = stablehlo.slice %43 [0:4, 1:2] : (tensor<4x2xf32>) -> tensor<4x1xf32>
    %54 = stablehlo.slice %50 [0:4, 0:5, 1:2] : (tensor<4x5x2xf32>) -> tensor<4x5x1xf32>
    %55 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
    %56 = stablehlo.multiply %55, %arg0 : tensor<4x5xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 2] : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %58 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<5x5xf32>) -> tensor<1x5x5xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<1x5x5xf32>) -> tensor<4x5x5xf32>
    %60 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<4x1x5xf32>) -> tensor<4x5x5xf32>
    %61 = stablehlo.multiply %59, %60 : tensor<4x5x5xf32>
    %62 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x5x5xf32>
    %63 = stablehlo.multiply %62, %61 : tensor<4x5x5xf32>
    %64 = stablehlo.iota dim = 0 : tensor<1x1xi64>
    %65 = stablehlo.iota dim = 1 : tensor<1x1xi64>
    %66 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<1x1xi64>
    %67 = stablehlo.add %64, %66 : tensor<1x1xi64>
    %68 = stablehlo.compare EQ, %67, %65, SIGNED : (tensor<1x1xi64>, tensor<1x1xi64>) -> tensor<1x1xi1>
    %69 = stablehlo.convert %68 : (tensor<1x1xi1>) -> tensor<1x1xf32>
    %70 = stablehlo.slice %69 [0:1, 0:1] : (tensor<1x1xf32>) -> tensor<1x1xf32>
    %71 = stablehlo.reshape %70 : (tensor<1x1xf32>) -> tensor<1xf32>
    %72 = stablehlo.convert %71 : tensor<1xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<1xf32>) -> tensor<1x5xf32>
    %74 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 3] : (tensor<4x5x5xf32>) -> tensor<4x5x1x5xf32>
    %75 = stablehlo.broadcast_in_dim %73, dims = [1, 2] : (tensor<1x5xf32>) -> tensor<1x1x5xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [1, 2, 3] : (tensor<1x1x5xf32>) -> tensor<1x1x1x5xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2, 3] : (tensor<1x1x1x5xf32>) -> tensor<4x5x1x5xf32>
    %78 = stablehlo.multiply %77, %74 : tensor<4x5x1x5xf32>
    %79 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %80 = stablehlo.broadcast_in_dim %51, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %81 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 3] : (tensor<4x5x1xf32>) -> tensor<4x5x1x1xf32>
    %82 = stablehlo.broadcast_in_dim %79, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<4x1x1xf32>
    %84 = stablehlo.multiply %80, %83 : tensor<4x1x1xf32>
    %85 = stablehlo.broadcast_in_dim %79, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<4x5x1x1xf32>
    %88 = stablehlo.multiply %81, %87 : tensor<4x5x1x1xf32>
    %89 = stablehlo.broadcast_in_dim %53, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %90 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 3] : (tensor<4x5x1xf32>) -> tensor<4x5x1x1xf32>
    %91 = stablehlo.broadcast_in_dim %79, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<4x1x1xf32>
    %93 = stablehlo.multiply %92, %89 : tensor<4x1x1xf32>
    %94 = stablehlo.broadcast_in_dim %79, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %96 = stablehlo.broadcast_in_dim %95, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<4x5x1x1xf32>
    %97 = stablehlo.multiply %96, %90 : tensor<4x5x1x1xf32>
    %98 = stablehlo.pad %84, %cst_1, low = [0, 0, 1], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4x1x2xf32>
    %99 = stablehlo.pad %88, %cst_1, low = [0, 0, 0, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x5x1x1xf32>, tensor<f32>) -> tensor<4x5x1x2xf32>
    %100 = stablehlo.pad %93, %cst_1, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4x1x2xf32>
    %101 = stablehlo.pad %97, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, 1], interior = [0, 0, 0, 0] : (tensor<4x5x1x1xf32>, tensor<f32>) -> tensor<4x5x1x2xf32>
    %102 = stablehlo.add %98, %100 : tensor<4x1x2xf32>
    %103 = stablehlo.add %99, %101 : tensor<4x5x1x2xf32>
    %104 = stablehlo.broadcast_in_dim %37, dims = [0, 2] : (tensor<4x2xf32>) -> tensor<4x1x2xf32>
    %105 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 3] : (tensor<4x5x2xf32>) -> tensor<4x5x1x2xf32>
    %106 = stablehlo.multiply %104, %102 : tensor<4x1x2xf32>
    %107 = stablehlo.broadcast_in_dim %102, dims = [0, 2, 3] : (tensor<4x1x2xf32>) -> tensor<4x1x1x2xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2, 3] : (tensor<4x1x1x2xf32>) -> tensor<4x5x1x2xf32>
    %109 = stablehlo.multiply %105, %108 : tensor<4x5x1x2xf32>
    %110 = stablehlo.broadcast_in_dim %104, dims = [0, 2, 3] : (tensor<4x1x2xf32>) -> tensor<4x1x1x2xf32>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2, 3] : (tensor<4x1x1x2xf32>) -> tensor<4x5x1x2xf32>
    %112 = stablehlo.multiply %111, %103 : tensor<4x5x1x2xf32>
    %113 = stablehlo.add %109, %112 : tensor<4x5x1x2xf32>
    %114 = stablehlo.broadcast_in_dim %41, dims = [0, 2] : (tensor<4x2xf32>) -> tensor<4x1x2xf32>
    %115 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 3] : (tensor<4x5x2xf32>) -> tensor<4x5x1x2xf32>
    %116 = stablehlo.multiply %102, %114 : tensor<4x1x2xf32>
    %117 = stablehlo.broadcast_in_dim %114, dims = [0, 2, 3] : (tensor<4x1x2xf32>) -> tensor<4x1x1x2xf32>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2, 3] : (tensor<4x1x1x2xf32>) -> tensor<4x5x1x2xf32>
    %119 = stablehlo.multiply %103, %118 : tensor<4x5x1x2xf32>
    %120 = stablehlo.broadcast_in_dim %102, dims = [0, 2, 3] : (tensor<4x1x2xf32>) -> tensor<4x1x1x2xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2, 3] : (tensor<4x1x1x2xf32>) -> tensor<4x5x1x2xf32>
    %122 = stablehlo.multiply %121, %115 : tensor<4x5x1x2xf32>
    %123 = stablehlo.add %119, %122 : tensor<4x5x1x2xf32>
    %124 = stablehlo.pad %106, %cst_1, low = [0, 0, 0], high = [0, 0, -1], interior = [0, 0, 0] : (tensor<4x1x2xf32>, tensor<f32>) -> tensor<4x1x1xf32>
    %125 = stablehlo.pad %113, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, -1], interior = [0, 0, 0, 0] : (tensor<4x5x1x2xf32>, tensor<f32>) -> tensor<4x5x1x1xf32>
    %126 = stablehlo.slice %124 [0:4, 0:1, 0:1] : (tensor<4x1x1xf32>) -> tensor<4x1x1xf32>
    %127 = stablehlo.slice %125 [0:4, 0:5, 0:1, 0:1] : (tensor<4x5x1x1xf32>) -> tensor<4x5x1x1xf32>
    %128 = stablehlo.pad %126, %cst_1, low = [0, 0, 2], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4x1x3xf32>
    %129 = stablehlo.pad %127, %cst_1, low = [0, 0, 0, 2], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x5x1x1xf32>, tensor<f32>) -> tensor<4x5x1x3xf32>
    %130 = stablehlo.pad %116, %cst_1, low = [0, 0, 0], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x1x2xf32>, tensor<f32>) -> tensor<4x1x3xf32>
    %131 = stablehlo.pad %123, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, 1], interior = [0, 0, 0, 0] : (tensor<4x5x1x2xf32>, tensor<f32>) -> tensor<4x5x1x3xf32>
    %132 = stablehlo.add %128, %130 : tensor<4x1x3xf32>
    %133 = stablehlo.add %129, %131 : tensor<4x5x1x3xf32>
    %134 = stablehlo.broadcast_in_dim %23, dims = [0, 2] : (tensor<4x3xf32>) -> tensor<4x1x3xf32>
    %135 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 3] : (tensor<4x5x3xf32>) -> tensor<4x5x1x3xf32>
    %136 = stablehlo.multiply %134, %132 : tensor<4x1x3xf32>
    %137 = stablehlo.broadcast_in_dim %132, dims = [0, 2, 3] : (tensor<4x1x3xf32>) -> tensor<4x1x1x3xf32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1, 2, 3] : (tensor<4x1x1x3xf32>) -> tensor<4x5x1x3xf32>
    %139 = stablehlo.multiply %135, %138 : tensor<4x5x1x3xf32>
    %140 = stablehlo.broadcast_in_dim %134, dims = [0, 2, 3] : (tensor<4x1x3xf32>) -> tensor<4x1x1x3xf32>
    %141 = stablehlo.broadcast_in_dim %140, dims = [0, 1, 2, 3] : (tensor<4x1x1x3xf32>) -> tensor<4x5x1x3xf32>
    %142 = stablehlo.multiply %141, %133 : tensor<4x5x1x3xf32>
    %143 = stablehlo.add %139, %142 : tensor<4x5x1x3xf32>
    %144 = stablehlo.broadcast_in_dim %27, dims = [0, 2] : (tensor<4x3xf32>) -> tensor<4x1x3xf32>
    %145 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 3] : (tensor<4x5x3xf32>) -> tensor<4x5x1x3xf32>
    %146 = stablehlo.multiply %132, %144 : tensor<4x1x3xf32>
    %147 = stablehlo.broadcast_in_dim %144, dims = [0, 2, 3] : (tensor<4x1x3xf32>) -> tensor<4x1x1x3xf32>
    %148 = stablehlo.broadcast_in_dim %147, dims = [0, 1, 2, 3] : (tensor<4x1x1x3xf32>) -> tensor<4x5x1x3xf32>
    %149 = stablehlo.multiply %133, %148 : tensor<4x5x1x3xf32>
    %150 = stablehlo.broadcast_in_dim %132, dims = [0, 2, 3] : (tensor<4x1x3xf32>) -> tensor<4x1x1x3xf32>
    %151 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2, 3] : (tensor<4x1x1x3xf32>) -> tensor<4x5x1x3xf32>
    %152 = stablehlo.multiply %151, %145 : tensor<4x5x1x3xf32>
    %153 = stablehlo.add %149, %152 : tensor<4x5x1x3xf32>
    %154 = stablehlo.pad %136, %cst_1, low = [0, 0, 0], high = [0, 0, -1], interior = [0, 0, 0] : (tensor<4x1x3xf32>, tensor<f32>) -> tensor<4x1x2xf32>
    %155 = stablehlo.pad %143, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, -1], interior = [0, 0, 0, 0] : (tensor<4x5x1x3xf32>, tensor<f32>) -> tensor<4x5x1x2xf32>
    %156 = stablehlo.slice %154 [0:4, 0:1, 0:2] : (tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
    %157 = stablehlo.slice %155 [0:4, 0:5, 0:1, 0:2] : (tensor<4x5x1x2xf32>) -> tensor<4x5x1x2xf32>
    %158 = stablehlo.pad %156, %cst_1, low = [0, 0, 3], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<4x1x2xf32>, tensor<f32>) -> tensor<4x1x5xf32>
    %159 = stablehlo.pad %157, %cst_1, low = [0, 0, 0, 3], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x5x1x2xf32>, tensor<f32>) -> tensor<4x5x1x5xf32>
    %160 = stablehlo.pad %146, %cst_1, low = [0, 0, 0], high = [0, 0, 2], interior = [0, 0, 0] : (tensor<4x1x3xf32>, tensor<f32>) -> tensor<4x1x5xf32>
    %161 = stablehlo.pad %153, %cst_1, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<4x5x1x3xf32>, tensor<f32>) -> tensor<4x5x1x5xf32>
    %162 = stablehlo.add %158, %160 : tensor<4x1x5xf32>
    %163 = stablehlo.add %159, %161 : tensor<4x5x1x5xf32>
    %164 = stablehlo.broadcast_in_dim %15, dims = [0, 2] : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %165 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 3] : (tensor<4x5x5xf32>) -> tensor<4x5x1x5xf32>
    %166 = stablehlo.broadcast_in_dim %164, dims = [0, 2, 3] : (tensor<4x1x5xf32>) -> tensor<4x1x1x5xf32>
    %167 = stablehlo.broadcast_in_dim %166, dims = [0, 1, 2, 3] : (tensor<4x1x1x5xf32>) -> tensor<4x5x1x5xf32>
    %168 = stablehlo.multiply %163, %167 : tensor<4x5x1x5xf32>
    %169 = stablehlo.broadcast_in_dim %162, dims = [0, 2, 3] : (tensor<4x1x5xf32>) -> tensor<4x1x1x5xf32>
    %170 = stablehlo.broadcast_in_dim %169, dims = [0, 1, 2, 3] : (tensor<4x1x1x5xf32>) -> tensor<4x5x1x5xf32>
    %171 = stablehlo.multiply %170, %165 : tensor<4x5x1x5xf32>
    %172 = stablehlo.add %168, %171 : tensor<4x5x1x5xf32>
    %173 = stablehlo.add %78, %172 : tensor<4x5x1x5xf32>
    %174 = stablehlo.slice %173 [0:4, 0:5, 0:1, 0:5] : (tensor<4x5x1x5xf32>) -> tensor<4x5x1x5xf32>
    %175 = stablehlo.reshape %174 : (tensor<4x5x1x5xf32>) -> tensor<4x5x5xf32>
    %176 = stablehlo.transpose %175, dims = [0, 2, 1] : (tensor<4x5x5xf32>) -> tensor<4x5x5xf32>
    %177 = stablehlo.slice %176 [0:4, 0:5, 0:5] : (tensor<4x5x5xf32>) -> tensor<4x5x5xf32>
    return %177 : tensor<4x5x5xf32>
  }
}
