// Keeps keys and values of earlier forwards, so that attention of the current tokens also sees them, as far
// as the run's rule allows. The link is below context and tensor links, so it stores local heads after RoPE,
// for all tokens.
//
// Stored by the attention's name and the pass' branch (guidance has one cache per branch). A forward whose
// first INDEX is already stored replaces everything from there on: later passes over a chunk overwrite the
// first, and a forward from INDEX 0 starts over.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "kinora/abi/cache.h"
#include "kinora/link.hpp"
#include "plugins/caches/kv/kept_rows.hpp"

namespace kinora {

// For passes without gradients. Errors are kinora::Error. Arguments of the calls are those of
// kinora/abi/cache.h.
class KvCacheLink final : public Link<Tensor> {
 public:
  // window: the number of tokens that are not pinned which a forward sees, its own included; the oldest of
  // the others are evicted when it begins. 0: nothing is evicted. tokens: as in kinora_cache.create.
  KvCacheLink(int64_t window, int64_t tokens);

  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override;

  int64_t tokens(uint32_t branch) const;
  int64_t bytes() const;
  void reset(uint32_t branch);
  void trim(uint32_t branch, int64_t tokens);
  void pin(int64_t first, int64_t count);

 private:
  struct Branch {
    Tensor table;                // int64 [1 or B, tokens, columns]: stored tokens, this forward's included
    std::vector<int64_t> index;  // their INDEX
    size_t kept = 0;             // tokens of earlier forwards, which are the first ones
    Tensor from;                 // the table of this forward, recognised by its address
    Tensor rows;                 // rows of `from` that are not padding; undefined: all
    std::map<std::string, KeptRows> attentions;
  };
  struct Pinned {
    int64_t first, count;
  };
  void step(Branch& b, const Tensor& table) const;
  // Rows of the branch that stay when a forward of tokens of these INDEX begins, in order.
  std::vector<int64_t> staying(const Branch& b, const std::vector<int64_t>& fresh) const;
  bool is_pinned(int64_t index) const;
  // Rows to allocate for an attention.
  int64_t room() const;

  int64_t window_, tokens_;
  std::vector<Pinned> pinned_;
  std::map<uint32_t, Branch> branches_;
};

}  // namespace kinora
