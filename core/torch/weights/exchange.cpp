#include "core/torch/weights/exchange.hpp"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {
namespace {

// Differs from the tags of a pipeline, which may use the same connections.
constexpr int64_t kTag = int64_t{1} << 30;

Started<at::Tensor> started(const kinora_group& group, uint32_t op, const at::Tensor& in, int64_t peer) {
  return {&group, {sizeof(kinora_transfer), op, 0, 0, peer, kTag, handle(in)}};
}

// Code and message of an exception; empty if there was none.
std::string said_by(const std::exception_ptr& failure) {
  if (!failure) return "";
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    return std::to_string(e.code()) + " " + e.what();
  } catch (const c10::Error& e) {
    return std::to_string(code_of(e)) + " " + text_of(e);
  } catch (const std::exception& e) {
    return std::to_string(KINORA_ERROR_FAILED) + " " + e.what();
  }
}

}  // namespace

at::Tensor tensor_of_text(const std::string& text) {
  auto out = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  if (!text.empty()) std::memcpy(out.data_ptr(), text.data(), text.size());
  return out;
}

Exchange::Exchange(const kinora_group& group, at::Device device)
    : group_(group.size > 1 ? &group : nullptr), device_(device) {}

at::Tensor Exchange::transfer(uint32_t op, const at::Tensor& in, int64_t peer) const {
  return started(*group_, op, in.to(device_).contiguous(), peer).finish().to(at::kCPU);
}

std::vector<at::Tensor> Exchange::gather(const at::Tensor& row) const {
  if (!group_) return {row};
  const at::Tensor sizes = transfer(KINORA_OP_ALL_GATHER, at::full({1}, row.numel(), at::kLong));
  auto padded = at::zeros({std::max<int64_t>(1, sizes.max().item<int64_t>())}, row.options());
  padded.narrow(0, 0, row.numel()).copy_(row);
  const auto all = transfer(KINORA_OP_ALL_GATHER, padded.unsqueeze(0));
  std::vector<at::Tensor> out;
  for (int64_t r = 0; r < size(); ++r) out.push_back(all[r].narrow(0, 0, sizes[r].item<int64_t>()));
  return out;
}

std::vector<std::string> Exchange::gather(const std::string& text) const {
  if (!group_) return {text};
  std::vector<std::string> out;
  for (const auto& row : gather(tensor_of_text(text)))
    out.emplace_back(static_cast<const char*>(row.data_ptr()), static_cast<size_t>(row.numel()));
  return out;
}

at::Tensor Exchange::from(int64_t rank, const at::Tensor& tensor) const {
  return group_ ? transfer(KINORA_OP_BROADCAST, tensor, rank) : tensor;
}

// Between two ranks the lower one sends first, so neither waits for the other, even if a connection carries
// one message at a time.
void Exchange::swap(const std::vector<Message>& out, std::vector<Message>& in) const {
  struct Work {
    Started<at::Tensor> work;
    Message* to;
  };
  std::vector<Work> works;
  auto send = out.begin();
  auto receive = in.begin();
  const auto start_send = [&] {
    works.push_back({started(*group_, KINORA_OP_SEND, send->bytes.to(device_), send->peer), nullptr});
    ++send;
  };
  const auto start_receive = [&] {
    works.push_back({started(*group_, KINORA_OP_RECV, receive->bytes.to(device_), receive->peer), &*receive});
    ++receive;
  };
  while (send != out.end() || receive != in.end()) {
    const bool sends = receive == in.end() || (send != out.end() && send->peer < receive->peer) ||
                       (send != out.end() && send->peer == receive->peer && rank() < send->peer);
    sends ? start_send() : start_receive();
  }
  for (auto& w : works) {
    const auto got = w.work.finish();
    if (w.to) w.to->bytes = got.to(at::kCPU);
  }
}

void Exchange::together(const std::function<void()>& f) const {
  std::exception_ptr failure;
  try {
    f();
  } catch (...) {
    failure = std::current_exception();
  }
  agree(failure);
}

void Exchange::on_first(const std::function<void()>& f) const {
  together([&] {
    if (rank() == 0) f();
  });
}

void Exchange::agree(const std::exception_ptr& failure) const {
  if (!group_) {
    if (failure) std::rethrow_exception(failure);
    return;
  }
  const auto texts = gather(said_by(failure));
  for (size_t r = 0; r < texts.size(); ++r)
    if (const auto space = texts[r].find(' '); space != std::string::npos)
      raise(std::stoi(texts[r]), "rank {}: {}", r, texts[r].substr(space + 1));
}

}  // namespace kinora::core
