// Keys and values of earlier forwards: attention of the tokens of this one sees them too, as far as the run's
// rule allows. It is below context and tensor links, so what it keeps are local heads after RoPE, of all
// tokens.
//
//   KvCacheLink cache;
//   Chain chain(options, {cache.get()});
//   for (...) { frames.start = tokens_done; chain.set_frames(frames);  chain.begin(pass); model.forward(...);
//   }
//
// Kept by the attention's name and the pass' branch (guidance runs a cache a branch). A forward whose first
// INDEX is not behind everything kept replaces what is kept from there on: the later passes over a chunk
// overwrite the first's, and a forward from INDEX 0 begins anew.
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
  // tokens: room that is made at once; 0: it doubles when needed. More than that also doubles it.
  explicit KvCacheLink(int64_t tokens = 0);

  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

  void clear() { branches_.clear(); }
  // Tokens that the branch holds.
  int64_t tokens(uint32_t branch = 0) const;
  // Of the storage of all keys and values, room that is not yet used included.
  int64_t bytes() const;

 private:
  struct Kept {
    at::Tensor k, v;     // [B, room, heads, d]
    int64_t tokens = 0;  // of them in use
  };
  struct Branch {
    at::Tensor table;  // int64 [1 or B, tokens, 8] of what is kept and what this forward adds
    at::Tensor from;   // the table of this forward, by whose address it is known again
    at::Tensor rows;   // of `from`: those that are not padding; undefined: all
    int64_t kept = 0;  // tokens of earlier forwards
    std::map<std::string, Kept> attentions;
  };
  static void step(Branch& b, const at::Tensor& table);
  // Puts x behind the first `kept` tokens of `all`; returns those and x.
  at::Tensor put(at::Tensor& all, int64_t kept, const at::Tensor& x) const;

  int64_t room_;
  std::map<uint32_t, Branch> branches_;
};

}  // namespace kinora::core
