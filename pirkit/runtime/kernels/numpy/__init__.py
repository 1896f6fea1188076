"""Kernels for the CPU, written in numpy. Importing the package registers them."""

from pirkit.runtime.kernels.numpy import (
    activation as activation,
)
from pirkit.runtime.kernels.numpy import (
    arithmetic as arithmetic,
)
from pirkit.runtime.kernels.numpy import (
    attention as attention,
)
from pirkit.runtime.kernels.numpy import (
    batch_norm as batch_norm,
)
from pirkit.runtime.kernels.numpy import (
    constants as constants,
)
from pirkit.runtime.kernels.numpy import (
    conv as conv,
)
from pirkit.runtime.kernels.numpy import (
    conv_transpose as conv_transpose,
)
from pirkit.runtime.kernels.numpy import (
    creation as creation,
)
from pirkit.runtime.kernels.numpy import (
    detection as detection,
)
from pirkit.runtime.kernels.numpy import (
    dropout as dropout,
)
from pirkit.runtime.kernels.numpy import (
    einsum as einsum,
)
from pirkit.runtime.kernels.numpy import (
    elementwise as elementwise,
)
from pirkit.runtime.kernels.numpy import (
    fourier as fourier,
)
from pirkit.runtime.kernels.numpy import (
    gathering as gathering,
)
from pirkit.runtime.kernels.numpy import (
    gating as gating,
)
from pirkit.runtime.kernels.numpy import (
    interp as interp,
)
from pirkit.runtime.kernels.numpy import (
    joining as joining,
)
from pirkit.runtime.kernels.numpy import (
    loss as loss,
)
from pirkit.runtime.kernels.numpy import (
    matmul as matmul,
)
from pirkit.runtime.kernels.numpy import (
    matrices as matrices,
)
from pirkit.runtime.kernels.numpy import (
    merged_optimizer as merged_optimizer,
)
from pirkit.runtime.kernels.numpy import (
    movement as movement,
)
from pirkit.runtime.kernels.numpy import (
    non_dense as non_dense,
)
from pirkit.runtime.kernels.numpy import (
    norm as norm,
)
from pirkit.runtime.kernels.numpy import (
    optimizer as optimizer,
)
from pirkit.runtime.kernels.numpy import (
    padding as padding,
)
from pirkit.runtime.kernels.numpy import (
    pool as pool,
)
from pirkit.runtime.kernels.numpy import (
    pool_index as pool_index,
)
from pirkit.runtime.kernels.numpy import (
    random as random,
)
from pirkit.runtime.kernels.numpy import (
    reduction as reduction,
)
from pirkit.runtime.kernels.numpy import (
    rnn as rnn,
)
from pirkit.runtime.kernels.numpy import (
    row_optimizer as row_optimizer,
)
from pirkit.runtime.kernels.numpy import (
    sampling as sampling,
)
from pirkit.runtime.kernels.numpy import (
    scan as scan,
)
from pirkit.runtime.kernels.numpy import (
    scatter as scatter,
)
from pirkit.runtime.kernels.numpy import (
    selection as selection,
)
from pirkit.runtime.kernels.numpy import (
    set_value as set_value,
)
from pirkit.runtime.kernels.numpy import (
    softmax as softmax,
)
from pirkit.runtime.kernels.numpy import (
    sorting as sorting,
)
from pirkit.runtime.kernels.numpy import (
    special as special,
)
from pirkit.runtime.kernels.numpy import (
    unfold as unfold,
)
from pirkit.runtime.kernels.numpy import (
    views as views,
)
