// One attention's keys and values in the form that the options `store` and `smooth` name.
//
//   store     a head of a token takes                            next.attention() gets
//   as given  its own bytes                                      the rows, as views
//   fp8       d + 4 bytes                                        codes and scales, or numbers if `smooth` is not none
//   nvfp4     9 ceil(d / 16) + 4 bytes                           numbers
//
//   smooth
//   none      codes of the keys
//   chunk     codes of the keys minus their mean over the tokens of a forward, for each sample, head and channel. The
//             mean is stored in bfloat16 and added back when the codes are read: a softmax ignores a constant in the
//             logits only where one mean serves all keys that a query sees. It is rounded before it is subtracted, so
//             the rounding adds no error.
//   longlive  codes of the keys; and a forward sees its own keys and values unrounded, the keys minus their mean over
//             the channels of a head (k_smooth of LongLive 2.0, wan_5b/modules/causal_model.py). A softmax does not
//             ignore that mean: the mode exists for equality with LongLive.
//
// B samples, S tokens, H heads, d width of a head.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugins/caches/kv/codes.hpp"
#include "plugins/caches/kv/kept_rows.hpp"

namespace kinora {

enum class Store { as_given, fp8, nvfp4 };
enum class Smooth { none, chunk, longlive };

struct Coding {
  Store store = Store::as_given;
  Smooth smooth = Smooth::none;
  // Throws Error(KINORA_ERROR_INVALID) for means of keys that are stored as given.
  static Coding of(const std::string& store, const std::string& smooth);
};

// The tokens that a forward sees; its own are the last ones.
struct SeenTokens {
  const std::vector<int64_t>& index;  // their INDEX
  size_t kept;                        // the number of stored ones, which are the first
  // Smooth::chunk: the INDEX of the first token of each one's forward.
  const std::vector<int64_t>& chunks;
  bool read_only;  // nothing is stored
  int64_t room;    // number of rows to allocate at least
};

struct StoredKv {
  struct Seen {
    KeptRows::Pair kv, scales;  // scales: undefined unless kv are bytes of E4M3
  };
  // k, v [B, S, H, d]: those of the forward's own tokens. The forward sees the same numbers whether it stores them or
  // not: rounded ones, but for Smooth::longlive. Views live until the next call. Throws as KeptRows::put() does.
  Seen see(const Coding& how, const SeenTokens& tokens, const Tensor& k, const Tensor& v);
  int64_t bytes() const;

  KeptRows rows, scales;
  // The keys' mean of each chunk, by the INDEX of its first token: bfloat16 [B, 1, H, d].
  std::map<int64_t, Tensor> means;
};

}  // namespace kinora
