// Keeps keys and values of earlier forwards, so that attention of the current tokens also sees them, as far
// as the run's rule allows. The link is below context and tensor links, so it stores local heads, for all tokens.
//
// Stored by the pass' session and branch (guidance has one cache per branch) and the attention's name. A branch also
// keeps what linear layers make of the text: keys and values that stay while the text does (SharedLinears).
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kinora/abi/cache.h"
#include "kinora/link.hpp"
#include "plugins/caches/kv/eviction.hpp"
#include "plugins/caches/kv/positions.hpp"
#include "plugins/caches/kv/shared_linears.hpp"
#include "plugins/caches/kv/stored_kv.hpp"

namespace kinora {

struct KvOptions {
  int64_t window = 0, capacity = 0, sink = 0;
  std::string positions = "absolute", store = "as given", smooth = "none";
};

// For passes without gradients. Errors are kinora::Error. Arguments of the calls are those of
// kinora/abi/cache.h.
class KvCacheLink final : public Link<Tensor> {
 public:
  // tokens: as in kinora_cache.create.
  KvCacheLink(const KvOptions& options, int64_t tokens);

  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override;
  kinora_param parameter(const kinora_param_spec& spec) override;
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;

  using Saved = std::map<std::string, Tensor>;
  int64_t tokens(uint64_t session, uint32_t branch) const;
  int64_t bytes(uint64_t session) const;
  void reset(uint64_t session, uint32_t branch);
  void trim(uint64_t session, uint32_t branch, int64_t tokens);
  void pin(uint64_t session, int64_t first, int64_t count);
  void unpin(uint64_t session, int64_t first, int64_t count);
  void copy(uint64_t from, uint64_t to);
  // "kv/1": the pinned ranges, int64 [n, 2], first and end of each. For each branch B that has tokens "table.B", and
  // for each attention A "k.B.A" and "v.B.A", in the order of the table. Relative positions: "closed.B", int64
  // [tokens]. FP8: "k_scales.B.A" and "v_scales.B.A", and k and v are bytes of E4M3. NVFP4: k and v are bytes of
  // nvfp4.hpp. Means of chunks: "chunks.B", int64 [tokens], the INDEX of the first token of each one's chunk, and
  // "k_means.B.A", bfloat16 [B, chunks, H, d], in the order of these INDEX. Views of the storage, but for the means.
  Saved save(uint64_t session) const;
  void restore(uint64_t session, const Saved& saved);

 private:
  // The tokens that one forward sees.
  struct Forward {
    Tensor from;  // its own table, recognised by its address
    bool read_only = false;
    Tensor rows;   // rows of `from` that are not padding; undefined: all
    Tensor table;  // int64 [1 or B, tokens, columns]: the stored tokens that it sees, and its own
    std::vector<int64_t> index;  // their INDEX
    size_t kept = 0;             // the number of stored ones, which are the first
    TimeAxis axis{};
    std::vector<int64_t> closed;  // relative positions: how many were evicted before each token
    std::vector<Turn> turns;      // of the keys, from it
    std::vector<int64_t> chunks;  // means of chunks: INDEX of the first token of each one's forward
  };
  struct Branch {
    Tensor table;                // of the stored tokens
    std::vector<int64_t> index;  // their INDEX
    std::vector<int64_t> closed, chunks;
    Forward now;
    std::map<std::string, StoredKv> attentions;
    SharedLinears of_text;
  };
  struct Session {
    std::map<uint32_t, Branch> branches;
    std::vector<Range> pinned;
    void unpin(const Range& range);
    // The next forward is not the last one, even if its table has the same address.
    void forget_forward();
  };
  static Range range(const char* call, int64_t first, int64_t count);
  Session restored(const Saved& saved) const;
  // names: what it reads is added.
  Branch restored_branch(const Saved& saved, const std::string& branch, std::set<std::string>& names) const;
  // end: ".", the branch, "." and the attention's name. Throws, or adds the names that it reads.
  StoredKv restored_kv(const Saved& saved, const std::string& end, const Branch& b,
                       std::set<std::string>& names) const;
  void step(const Session& s, Branch& b, const Tensor& table, bool read_only, const TimeAxis& axis) const;
  // Forward::closed. stay: rows of the branch; fresh, added: INDEX and table of the forward's own tokens.
  static std::vector<int64_t> closed_before(const Branch& b, const std::vector<int64_t>& stay,
                                            const std::vector<int64_t>& fresh, const Tensor& added,
                                            const TimeAxis& axis);
  // The keys and values that an attention of the forward sees.
  struct Seen {
    KeptRows::Pair kv, scales;  // scales: undefined unless kv are bytes of E4M3
    Tensor table;
  };
  Seen seen(const std::string& name, const Tensor& k, const Tensor& v, const kinora_attention& how);
  // For a forward of these tokens.
  Bounds bounds(const Tensor& table) const;
  // Rows to allocate for an attention.
  int64_t room(const Session& s) const;

  const KvOptions options_;
  int64_t tokens_;
  Coding coding_;
  bool relative_, has_means_;
  std::set<kinora_param> columns_;  // weights of layers that lead to heads
  std::map<uint64_t, Session> sessions_;
};

}  // namespace kinora
