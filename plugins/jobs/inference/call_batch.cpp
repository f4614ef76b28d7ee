#include "plugins/jobs/inference/call_batch.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "plugins/jobs/inference/guidance.hpp"

namespace kinora::core::inference {

int64_t CallBatch::shared() const {
  const std::scoped_lock lock(mutex_);
  return shared_;
}

void CallBatch::leave() {
  const std::scoped_lock lock(mutex_);
  --videos_;
  changed_.notify_all();
}

at::Tensor CallBatch::call(uint32_t number, const NamedTensors& in, const Function& function) {
  Ask mine{number, in};
  {
    std::unique_lock lock(mutex_);
    waiting_.push_back(&mine);
    while (!mine.is_over && !can_answer()) {
      turns_.unlock();
      changed_.wait(lock, [&] { return mine.is_over || can_answer(); });
      lock.unlock();
      turns_.lock();
      lock.lock();
    }
    if (!mine.is_over) answer_all(function);
  }
  return mine.out.defined() ? mine.out : function(number, in);
}

void CallBatch::answer_all(const Function& function) {
  auto left = std::exchange(waiting_, {});
  for (Ask* one : left) one->is_over = true;
  while (!left.empty() && !has_failed_) {
    const Ask& first = *left.front();
    const auto others = std::stable_partition(left.begin(), left.end(),
                                              [&](const Ask* one) { return are_alike(first, *one); });
    answer({left.begin(), others}, function);
    left.erase(left.begin(), others);
  }
  changed_.notify_all();
}

// Masked texts may have different lengths.
bool CallBatch::are_alike(const Ask& a, const Ask& b) {
  const bool has_mask = a.in.contains("text_mask");
  const auto one_shape = [&](const auto& x, const auto& y) {
    const size_t from = has_mask && (x.first == "text" || x.first == "text_mask") ? 2 : 1;
    return x.first == y.first && x.second.scalar_type() == y.second.scalar_type() &&
           x.second.dim() == y.second.dim() && x.second.sizes().slice(from) == y.second.sizes().slice(from);
  };
  return a.call == b.call && std::equal(a.in.begin(), a.in.end(), b.in.begin(), b.in.end(), one_shape);
}

void CallBatch::answer(const std::vector<Ask*>& alike, const Function& function) {
  if (alike.size() < 2) return;
  try {
    NamedTensors in = alike[0]->in;
    for (size_t i = 1; i < alike.size(); ++i) in = joined(in, alike[i]->in);
    const at::Tensor all = function(alike[0]->call, in);
    int64_t row = 0;
    for (Ask* one : alike) {
      const int64_t rows = one->in.begin()->second.size(0);
      one->out = all.narrow(0, row, rows);
      row += rows;
    }
    ++shared_;
  } catch (const std::exception& e) {
    has_failed_ = true;
    for (Ask* one : alike) one->out = at::Tensor();
    if (!cancelled())
      log_warn("a model call for {} videos failed; each makes its own from now on: {}", alike.size(),
               e.what());
  }
}

}  // namespace kinora::core::inference
