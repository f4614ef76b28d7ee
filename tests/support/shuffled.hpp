// Tokens in another order, as context parallelism leaves them: only the tables give their positions.
#pragma once
#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::test {

class Shuffled final : public Link<at::Tensor> {
 public:
  // by_sample: one table per sample, as for packed rows.
  explicit Shuffled(bool by_sample) : Link(KINORA_LEVEL_CONTEXT), by_sample_(by_sample) {}
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override {
    at::manual_seed(5);
    order_ = at::randperm(x.size(1), at::kLong);
    table_ = borrow<at::Tensor>(spec.table).index_select(1, order_);
    if (by_sample_) table_ = table_.expand({x.size(0), -1, -1}).contiguous();
    auto shuffled = spec;
    shuffled.table = handle(table_);
    return next.sequence(x.index_select(1, order_), shuffled, seq);
  }
  at::Tensor leave(const at::Tensor& x, kinora_seq seq) override {
    return next.leave(x, seq).index_select(1, order_.argsort());
  }

 private:
  bool by_sample_;
  at::Tensor order_, table_;
};

}  // namespace kinora::test
