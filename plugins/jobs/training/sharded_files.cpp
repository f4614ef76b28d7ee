#include "plugins/jobs/training/sharded_files.hpp"

#include <algorithm>
#include <numeric>
#include <regex>
#include <set>

#include <ATen/ATen.h>

#include "core/io/contents.hpp"
#include "core/io/fence.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "host/weights/safetensors_header.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const at::Tensor& t) {
  return {static_cast<const std::byte*>(t.data_ptr()), t.nbytes()};
}

}  // namespace

ShardedFiles::ShardedFiles(std::vector<TensorFile> files, const Exchange& exchange, uint64_t shard_size)
    : exchange_(exchange), files_(std::move(files)), numbers_(exchange) {
  for (auto& f : files_) {
    const size_t first = numbers_.items().size();
    for (const auto& h : f.holdings) numbers_.add(h);
    f.holdings.clear();
    std::vector<SafeTensor> tensors;
    std::map<std::string, int64_t> items;
    for (size_t i = first; i < numbers_.items().size(); ++i) {
      const auto& item = numbers_.items()[i];
      tensors.push_back({item.name, safe_dtype(item.name, item.dtype), item.shape, {}});
      items[item.name] = static_cast<int64_t>(i);
    }
    if (tensors.empty()) continue;
    std::sort(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.name < b.name; });
    for (auto& file : or_throw(cut_into_shards(f.name, tensors, shard_size))) {
      Shard& shard = shards_.emplace_back();
      for (const auto& t : file.tensors) shard.items.push_back(items.at(t.name));
      shard.file = std::move(file);
      shard.of = &f;
    }
  }
  assign();
}

// Assigns the largest first, to the rank that has the least (Graham 1969): at most 4/3 of the best split.
void ShardedFiles::assign() {
  std::vector<size_t> order(shards_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return shards_[a].file.bytes > shards_[b].file.bytes; });
  std::vector<uint64_t> bytes(static_cast<size_t>(exchange_.size()));
  for (const size_t i : order) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    shards_[i].writer = least - bytes.begin();
    *least += shards_[i].file.bytes;
  }
  items_.resize(bytes.size());
  for (int64_t r = 0; r < exchange_.size(); ++r) {
    auto& items = items_[static_cast<size_t>(r)];
    for (const auto* shard : shards_of(r))
      for (const int64_t i : shard->items) items.emplace_back(i, shard->of);
    rounds_ = std::max(rounds_, items.size());
  }
}

std::vector<const ShardedFiles::Shard*> ShardedFiles::shards_of(int64_t rank) const {
  std::vector<const Shard*> out;
  for (const auto& s : shards_)
    if (s.writer == rank) out.push_back(&s);
  return out;
}

// In each round every rank gets the tensor that it writes next, all at the same time.
at::Tensor ShardedFiles::next() {
  std::vector<int64_t> wanted;
  for (const auto& items : items_)
    wanted.push_back(round_ < items.size() ? items[round_].first : Gathering::kNone);
  at::Tensor whole = numbers_.collect(wanted);
  const auto mine = wanted[static_cast<size_t>(exchange_.rank())];
  if (mine != Gathering::kNone) {
    const auto& change = items_[static_cast<size_t>(exchange_.rank())][round_].second->change;
    if (change) whole = change(numbers_.items()[static_cast<size_t>(mine)].name, whole).contiguous();
  }
  ++round_;
  return whole;
}

// The digest is that of the bytes that are meant, computed on the way, so that it also finds what the disk changed.
void ShardedFiles::write_each(const fs::path& folder, const std::function<at::Tensor()>& next) {
  at::Tensor current;  // its bytes are borrowed until the next tensor
  written_.clear();
  for (const auto* s : shards_of(exchange_.rank())) {
    const std::string header = make_safe_header(s->file.tensors, s->of->metadata);
    const uint64_t length = header.size();
    Sha256 digest;
    digest.add(&length, sizeof length);
    digest.add(header.data(), header.size());
    or_throw(
        write_safetensors(folder / s->file.path, s->file.tensors, s->of->metadata, [&](const SafeTensor&) {
          current = at::Tensor();
          current = next();
          const auto bytes = bytes_of(current);
          digest.add(bytes.data(), bytes.size());
          return bytes;
        }));
    written_.push_back({s->file.path.string(), sizeof length + header.size() + s->file.bytes, digest.hex()});
  }
}

void ShardedFiles::stream(const fs::path& folder) {
  std::exception_ptr failure;
  bool talks = true;  // still communicates with the other ranks
  const auto next_of_all = [&] {
    talks = false;
    auto t = next();
    talks = true;
    return t;
  };
  try {
    write_each(folder, next_of_all);
  } catch (...) {
    if (!talks) throw;
    failure = std::current_exception();
  }
  while (round_ < rounds_) next();  // the others still need this rank's pieces
  exchange_.agree(failure);
}

void ShardedFiles::keep() {
  const size_t mine = items_[static_cast<size_t>(exchange_.rank())].size();
  while (round_ < rounds_)
    if (auto t = next(); round_ <= mine) kept_.push_back(std::move(t));
}

void ShardedFiles::write(const fs::path& folder) {
  write_each(folder, [&] {
    auto t = std::move(kept_.front());
    kept_.pop_front();
    return t;
  });
}

std::vector<ListedFile> ShardedFiles::written() const {
  std::vector<ListedFile> out;
  for (const auto& of_rank : exchange_.gather(list_json(written_).dump()))
    for (auto& file : list_from(nlohmann::json::parse(of_rank))) out.push_back(std::move(file));
  return out;
}

void ShardedFiles::finish(const fs::path& folder) const {
  for (const auto& f : files_) {
    std::vector<SafeShard> all;
    for (const auto& s : shards_) {
      if (s.of != &f) continue;
      if (std::error_code ignored; !fs::exists(folder / s.file.path, ignored))
        raise(KINORA_ERROR_IO,
              "{}: rank {} wrote it and rank {} does not see it; put the output folder on a file system that "
              "all "
              "ranks share",
              (folder / s.file.path).string(), s.writer, exchange_.rank());
      all.push_back(s.file);
    }
    if (!all.empty()) or_throw(write_index(folder / f.name, all));
  }
}

void ShardedFiles::clear(const fs::path& folder) const {
  or_throw(may_publish(folder));
  std::set<std::string> stems, written;
  for (const auto& f : files_) stems.insert(fs::path(f.name).stem().string());
  for (const auto& s : shards_) written.insert(s.file.path.string());
  static const std::regex form(R"((.*?)(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?)");
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::smatch parts;
    if (std::regex_match(name, parts, form) && stems.count(parts[1]) && !written.count(name))
      old.push_back(entry.path());
  }
  for (const auto& path : old) fs::remove(path);
}

std::vector<ListedFile> write_files(const fs::path& folder, const std::vector<TensorFile>& files,
                                    const Exchange& exchange, uint64_t shard_size) {
  const fs::path there = exchange.gather(fs::absolute(folder).string()).at(0);
  ShardedFiles all(files, exchange, shard_size);
  exchange.on_first([&] { all.clear(there); });
  all.stream(there);
  exchange.on_first([&] { all.finish(there); });
  return all.written();
}

}  // namespace kinora::core
