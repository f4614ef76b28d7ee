// The samples of one WebDataset shard, see webdataset.hpp. Needs libarchive.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "kinora/tar.hpp"
#include "kinora/webdataset.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// [owner-thread]
class WebDatasetReader {
 public:
  explicit WebDatasetReader(RandomBytes bytes, const WebDatasetLimits& limits = {})
      : name_(bytes.name), limits_(limits), tar_(std::move(bytes), limits.need_end) {}

  // The next sample in the order of the shard, or nothing at the end. Throws Error(KINORA_ERROR_DATA): for
  // one damaged sample, behind which the next call continues; or for the archive, and broken() is true then.
  // A sample whose end was not seen is not returned.
  std::optional<WebDatasetSample> next() { return read(true); }
  // The same without the bytes: fields have only names.
  std::optional<WebDatasetSample> next_names() { return read(false); }

  // Nothing more can be read: the archive is damaged, or its storage failed.
  bool broken() const { return broken_; }
  // Whether `where` of the samples can be used to read them again.
  bool seekable() const { return tar_.seekable(); }
  // Position of the sample that was returned or refused last.
  const WebDatasetEntry& last() const { return last_; }

 private:
  static constexpr size_t kMostFields = 1000;  // per sample; a hostile archive could have millions

  // f reads from the archive.
  template <class F>
  auto reading(F f) {
    broken_ = true;
    auto result = f();
    broken_ = false;
    return result;
  }

  std::optional<WebDatasetSample> read(bool contents) {
    std::optional<WebDatasetSample> sample;
    std::string wrong;
    uint64_t left = limits_.sample_bytes;
    while (!broken_) {
      std::optional<TarMember> member = std::exchange(ahead_, std::nullopt);
      if (!member) member = reading([&] { return tar_.next(); });
      if (!member) break;
      const auto name = split_member_name(member->name);
      if (!name) continue;
      if (sample && sample->key() != name->key) {
        ahead_ = std::move(member);
        break;
      }
      if (!sample) sample = WebDatasetSample{{std::string(name->key), name_, member->header, 0}, {}};
      if (wrong.empty())
        wrong = flaw(*sample, *member, field_name(name->field), contents ? left : member->size);
      if (wrong.empty()) {
        sample->fields.push_back({field_name(name->field), {}});
        if (contents) sample->fields.back().bytes = reading([&] { return tar_.content(); });
        left -= contents ? member->size : 0;
      }
      sample->where.size = member->end - sample->where.offset;
    }
    if (sample) last_ = sample->where;
    if (!wrong.empty()) throw Error(KINORA_ERROR_DATA, wrong);
    return sample;
  }

  // Why the member cannot be a field of the sample; empty: it can.
  std::string flaw(const WebDatasetSample& sample, const TarMember& member, std::string_view field,
                   uint64_t left) const {
    const std::string entry = name_ + ": entry " + std::to_string(member.number);
    if (sample.find(field))
      return entry + " is a second '" + member.name + "'; a sample may have each field once";
    if (sample.fields.size() == kMostFields)
      return entry + ": sample '" + sample.key() + "' has more than " + std::to_string(kMostFields) +
             " fields; is it a WebDataset?";
    if (member.size > left)
      return entry + " has " + std::to_string(member.size) + " bytes where at most " + std::to_string(left) +
             " may come; raise the limit if that is right";
    return "";
  }

  std::string name_;
  WebDatasetLimits limits_;
  TarReader tar_;
  std::optional<TarMember> ahead_;  // the first member of the next sample
  WebDatasetEntry last_;
  bool broken_ = false;
};

}  // namespace kinora

KINORA_SDK_END
