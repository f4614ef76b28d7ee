// Keeps keys and values of earlier forwards, so that attention of the current tokens also sees them, as far
// as the run's rule allows. The link is below context and tensor links, so it stores local heads after RoPE,
// for all tokens.
//
//   KvCacheLink cache;
//   Chain chain(options, {cache.get()});
//   for (...) { frames.start = tokens_done; chain.set_frames(frames);  chain.begin(pass); model.forward(...);
//   }
//
// Stored by the attention's name and the pass' branch (guidance has one cache per branch). A forward whose
// first INDEX is already stored replaces everything from there on: later passes over a chunk overwrite the
// first, and a forward from INDEX 0 starts over.
#pragma once
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

// For passes without gradients. Errors are kinora::Error.
class KvCacheLink final : public kinora::Link<at::Tensor> {
 public:
  // tokens: initial capacity; 0: none. The capacity doubles when needed.
  explicit KvCacheLink(int64_t tokens = 0);

  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

  void clear() { branches_.clear(); }
  // Number of tokens stored in the branch.
  int64_t tokens(uint32_t branch = 0) const;
  // Storage size of all keys and values, unused capacity included.
  int64_t bytes() const;

 private:
  struct Kept {
    at::Tensor k, v;     // [B, room, heads, d]
    int64_t tokens = 0;  // tokens in use
  };
  struct Branch {
    at::Tensor table;  // int64 [1 or B, tokens, 8]: stored tokens and those that this forward adds
    at::Tensor from;   // the table of this forward, recognised by its address
    at::Tensor rows;   // rows of `from` that are not padding; undefined: all
    int64_t kept = 0;  // tokens of earlier forwards
    std::map<std::string, Kept> attentions;
  };
  static void step(Branch& b, const at::Tensor& table);
  // Appends x to the first `kept` tokens of `all`; returns those and x.
  at::Tensor put(at::Tensor& all, int64_t kept, const at::Tensor& x) const;

  int64_t room_;
  std::map<uint32_t, Branch> branches_;
};

}  // namespace kinora::core
