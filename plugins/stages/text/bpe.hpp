// Byte-pair encoding (Sennrich et al. 2015, arXiv 1508.07909): merges neighbours by rules, best rule first.
#pragma once
#include <unordered_map>

#include "models.hpp"

namespace kinora::text {

class BpeModel final : public PieceModel {
 public:
  explicit BpeModel(Fields& model);
  void encode(std::string_view word, std::vector<int64_t>& ids) const override;
  std::optional<int64_t> id_of(std::string_view piece) const override;

 private:
  struct Merge {
    size_t rank;
    int64_t id;
  };
  struct PairHash {
    size_t operator()(const std::pair<int64_t, int64_t>& p) const {
      return std::hash<int64_t>{}(p.first * 1000003 ^ p.second);
    }
  };
  void read_merges(const Json& merges, const Fields& model);
  std::vector<int64_t> characters(std::string_view word) const;
  const Merge* merge_of(int64_t left, int64_t right) const;

  Vocabulary ids_;
  std::unordered_map<std::pair<int64_t, int64_t>, Merge, PairHash> merges_;
  std::string prefix_, suffix_;
  std::optional<int64_t> unknown_;
  bool fuse_unknown_ = false, whole_first_ = false;
  BytePieces bytes_;
};

Vocabulary read_vocabulary(const Json& vocab, const Fields& model);

}  // namespace kinora::text
