# SPDX-License-Identifier: Apache-2.0
"""Programs written by hand, for what random ones rarely have: kinds of in-place operators, out= with several results, sizes and
storages that change. x0 is [3, 4], x1 is [4, 4], of small whole numbers."""

import torch

ROWS: list[tuple[torch.dtype, list[str]]] = [
    (
        torch.float32,
        [
            "x2 = x1.new_zeros(4, 4)",
            "torch.sort(x1, dim=0, stable=True, out=(x2.t(), torch.empty(0, dtype=torch.int64, device=device)))",
        ],
    ),
    (
        torch.float32,
        [
            "x2 = torch.zeros(4,4,device=device)",
            "x3 = torch.zeros(4,4,dtype=torch.int64,device=device)",
            "torch.sort(x1, dim=0, stable=True, out=(x2.t(), x3))",
        ],
    ),
    (
        torch.float32,
        [
            "x2 = torch.zeros(4,device=device)",
            "x3 = torch.zeros(8,dtype=torch.int64,device=device)",
            "torch.max(x1, 0, out=(x2, x3[::2]))",
        ],
    ),
    (torch.float32, ["x2 = torch.zeros(8,8,device=device)", "torch.cat([x1,x1],0,out=x2[:, ::2])"]),
    (torch.float32, ["x2 = torch.zeros(2,8,4,device=device)", "torch.stack([x1,x1],0,out=x2[:, 1::2])"]),
    (
        torch.float32,
        [
            "for q in torch.split(x1, 1, 1): q.mul_(2)",
            "for q in x1.unbind(0): q.add_(1)",
            "for q in x1.chunk(2): q[0] = 5",
        ],
    ),
    (torch.float32, ["x1.cumsum_(0)", "x1.t().cumsum_(0)", "x0[1:].cumsum_(1)"]),
    (torch.float32, ["x1.fill_diagonal_(9)", "x0.fill_diagonal_(7)", "x1.t()[1:].fill_diagonal_(2)"]),
    (torch.float32, ["x1.tril_()", "x1.t().triu_(1)", "x0.t().tril_(-1)"]),
    (
        torch.float32,
        [
            "x1.put_(torch.tensor([0,5,15],device=device), torch.tensor([1.,2,3],device=device))",
            "x1.t().put_(torch.tensor([1,2],device=device), torch.tensor([10.,20],device=device), accumulate=True)",
        ],
    ),
    (
        torch.float32,
        [
            "x1.masked_scatter_(x1 > 0, torch.arange(16., device=device))",
            "x1.t().masked_scatter_(x1 < 0, torch.arange(100., 116, device=device))",
        ],
    ),
    (
        torch.float32,
        [
            "x0.index_reduce_(0, torch.tensor([0,2,0],device=device), x1[:3], 'amax')",
            "x1.t().index_reduce_(1, torch.tensor([1],device=device), x1[:, :1].clone(), 'prod')",
        ],
    ),
    (torch.float32, ["x0.swapaxes_(0,1)", "x2 = x0 + 1", "x2.resize_(2, 2)", "x2.fill_(3)"]),
    (
        torch.float32,
        [
            "x2 = torch.empty(0, device=device)",
            "x2.set_(x1)",
            "x2.add_(1)",
            "x2.set_(x1.untyped_storage(), 2, (3,), (2,))",
            "x2.mul_(2)",
        ],
    ),
    (torch.float32, ["x2 = x1.clone()", "x3 = x2[1:]", "x2.resize_(6, 4)", "x2[4:] = 0", "x3.add_(1)"]),
    (torch.float32, ["x2 = x0.clone()", "x2.as_strided_((2, 2), (1, 4), 1)", "x2.add_(10)"]),
    (torch.float32, ["x2 = x1.clone()", "x3 = x2.view(-1)", "x2.data = x0", "x3.add_(1)", "x2.add_(1)"]),
    (
        torch.float32,
        [
            "x1[[0,1],[2,3]] = 9",
            "x1[[0,1]] = x1[[1,0]]",
            "x1[:, [0, 0]] = 4",
            "x1[torch.tensor([True,False,True,False],device=device)] = 8",
        ],
    ),
    (
        torch.float32,
        ["x1[..., None, 1:3] = 3", "x1[None, 2] += 1", "x1[-1, ::2] -= 4", "x1[1:3, 1:3] = x1[1:3, 1:3].t().clone()"],
    ),
    (
        torch.float32,
        [
            "x0[:, 1].copy_(x1[0, :3])",
            "x0.t()[2] = x1.diagonal()[:3]",
            "x1.diagonal().copy_(x1[0].clone())",
            "x1.diagonal(1).zero_()",
        ],
    ),
    (torch.float32, ["x2 = x1.expand(3, 4, 4)", "x1.add_(1)", "x3 = x2.sum(0)", "x4 = x2[1].mul_(2)"]),
    (torch.float32, ["x1.unfold(0, 2, 2).mul_(3)", "x1.unfold(1, 2, 2)[0].add_(1)"]),
    (torch.float32, ["x2 = x1.bool()", "x2 |= x1 > 1", "x2 ^= True", "x2 &= x1.t() > 0", "x2.logical_not_()"]),
    (torch.float32, ["x1 **= 2", "x0 //= 2", "x0 %= 3", "x1 /= 2", "x1.remainder_(3)"]),
    (torch.int64, ["x0 <<= 1", "x0 >>= 2", "x1 //= 3", "x1 %= -3", "x1 **= 3"]),
    (torch.uint8, ["x0 <<= 1", "x0 >>= 2", "x1 //= 3", "x1 %= 3", "x1.bitwise_not_()"]),
    (torch.float32, ["x1.addmm_(x0.t(), x0, beta=2)", "x1[0].addmv_(x0.t(), x0[:, 0])", "x1.addr_(x0[0], x0[1])"]),
    (
        torch.float32,
        [
            "x1.scatter_(0, torch.tensor([[0,1,2,3]],device=device), x0[:1])",
            "x1.t().scatter_(1, torch.tensor([[1],[0],[3],[2]],device=device), 7.0)",
            "x1.scatter_(1, torch.tensor([[1]],device=device), 5.0, reduce='multiply')",
        ],
    ),
    (
        torch.float32,
        [
            "torch._foreach_copy_([x0, x1[:3]], [x1[1:].clone(), x0.clone()])",
            "torch._foreach_addcmul_([x0],[x0.clone()],[x0.clone()],2.0)",
            "torch._foreach_lerp_([x1],[x1*2],0.5)",
            "x2 = torch._foreach_norm([x1])[0]",
        ],
    ),
    (
        torch.float32,
        [
            "x1.copy_(x0[0])",
            "x1.copy_(torch.tensor(3))",
            "x1[0].copy_(torch.arange(4))",
            "x0.copy_(torch.ones(4, dtype=torch.bool))",
        ],
    ),
    (
        torch.float32,
        [
            "x2 = torch.empty_strided((3,2),(1,3),device=device)",
            "x2.copy_(x0[:, :2])",
            "x3 = x2.t().reshape(-1)",
            "x3.zero_()",
        ],
    ),
    (
        torch.float32,
        [
            "x2 = x0.to(torch.int64)",
            "x2.index_fill_(1, torch.tensor([0,3],device=device), 5)",
            "x2.index_copy_(1, torch.tensor([3,1],device=device), x2[:, :2].clone())",
            "x2.index_add_(0, torch.tensor([1,1,1],device=device), x2.clone(), alpha=2)",
        ],
    ),
    (torch.float32, ["x1.transpose_(0,1).add_(1)", "x1.squeeze_(0)", "x1.unsqueeze_(1)[..., 0] = 6"]),
    (
        torch.float32,
        [
            "x2 = x1.view(2,2,2,2).permute(3,1,0,2)",
            "x2[1, :, 0] += 5",
            "x2.flatten()[0] = 100",
            "x2.copy_(x2.clone().flip(0))",
        ],
    ),
    (torch.float32, ["x2 = x1[1:3]", "del x1", "x2.add_(4)", "x3 = x2.t()", "del x2", "x3[0] = 1"]),
    (torch.float32, ["torch.add(x1, 1, out=x1)", "x2 = torch.empty(4, device=device)", "torch.sum(x1, 0, out=x2)"]),
    (torch.float32, ["torch.nn.init.constant_(x1, 2)", "torch.nn.init.eye_(x1)", "torch.nn.init.zeros_(x0)"]),
    (
        torch.float32,
        [
            "x1.clamp_(min=torch.zeros(4,device=device))",
            "x1.clamp_(max=x1.t().clone())",
            "x0.sgn_()",
            "x0.square_()",
            "x0.logical_not_()",
            "x0.floor_divide_(2)",
        ],
    ),
    (
        torch.float32,
        [
            "x2 = torch.view_as_complex(x1.view(4,2,2))",
            "x2 *= 1j",
            "x3 = torch.view_as_real(x2.conj().resolve_conj())",
            "x2.real.add_(1)",
            "x2.imag[0] = 3",
        ],
    ),
    (
        torch.float32,
        [
            "x2 = torch.zeros(5, device=device)",
            "x2.index_put_((torch.tensor([0,0,3],device=device),), torch.tensor([1.,2,3],device=device), accumulate=True)",
            "x2.scatter_reduce_(0, torch.tensor([1,1,2],device=device), torch.tensor([4.,5,6],device=device), 'mean', include_self=False)",
        ],
    ),
    (
        torch.float32,
        ["x1.requires_grad_()", "x2 = x1 * 2", "x2.sum().backward()", "x3 = x1.grad.clone()", "x1.data.sub_(x1.grad)"],
    ),
]
# No part of a graph: what resizes a storage, and autograd.
EAGER_ONLY = ("resize_", "backward")
