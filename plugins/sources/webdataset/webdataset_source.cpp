#include "webdataset_source.hpp"

#include "kinora/plugin.hpp"
#include "kinora/webdataset_behind.hpp"

namespace kinora::webdataset {
namespace {

// The names of the shards below the folder that they share, so that a data set may be moved.
uint64_t hash_of_names(const std::vector<WebDatasetFile>& files) {
  size_t shared = files.empty() ? 0 : files[0].uri.rfind('/') + 1;  // npos + 1 is 0
  for (const auto& file : files)
    while (shared > 0 && file.uri.compare(0, shared, files[0].uri, 0, shared) != 0)
      shared = shared > 1 ? files[0].uri.rfind('/', shared - 2) + 1 : 0;
  std::string names;
  for (const auto& file : files) names += file.uri.substr(shared) + "\n";
  return hash_of(names);
}

// Whether another attempt may succeed, so that the position has to stay.
bool is_passing(int32_t code) {
  return code == KINORA_ERROR_IO || code == KINORA_ERROR_NO_MEMORY || code == KINORA_ERROR_CANCELLED ||
         code == KINORA_ERROR_TIMEOUT;
}

// Reads n samples without their bytes; damaged ones count.
void skip_samples(WebDatasetReader& reader, uint64_t n) {
  for (; n > 0; --n) {
    try {
      if (!reader.next_names()) return;
    } catch (const Error&) {
      if (reader.broken()) throw;
    }
  }
}

}  // namespace

void WebDatasetSource::describe(Describe<Options>& d) {
  d.name("webdataset")
      .help(
          "Samples of WebDataset tar shards: a folder, a .tar file or a pattern such as "
          "shard-{000000..000012}.tar");
  d.option("max_sample", &Options::max_sample)
      .bytes()
      .at_least(1)
      .help("largest size of a sample, all fields together; a larger one counts as damaged");
}

WebDatasetSource::WebDatasetSource(const Options& options) {
  limits_.sample_bytes = static_cast<uint64_t>(options.max_sample);
}

void WebDatasetSource::open(std::string_view path, uint64_t shard, uint64_t shards, const Run& /*run*/) {
  if (shard >= shards)
    throw Error(KINORA_ERROR_INVALID, "there is no part " + std::to_string(shard) + " of " +
                                          std::to_string(shards) + "; parts count from 0");
  files_ = webdataset_files(path);
  at_ = {};
  at_.shard = shard;
  at_.shards = shards;
  at_.files = files_.size();
  at_.names = hash_of_names(files_);
  at_.file = has_whole_files() ? shard : 0;
  close_file();
  is_open_ = true;
}

bool WebDatasetSource::is_mine(uint64_t file, uint64_t sample) const {
  if (has_whole_files()) return file % at_.shards == at_.shard;
  return (file + sample) % at_.shards == at_.shard;
}

void WebDatasetSource::require_open() const {
  if (!is_open_) throw Error(KINORA_ERROR_INVALID, "the source is not open; call open() first");
}

void WebDatasetSource::refuse(const std::string& why) const {
  throw Error(KINORA_ERROR_INVALID,
              files_[at_.file].uri + ": " + why + "; the shard is not the one of the state");
}

void WebDatasetSource::open_reader(const RandomBytes& bytes) {
  base_ = 0;
  WebDatasetReader reader(bytes, limits_);
  uint64_t behind = at_.passed;  // samples to skip
  if (behind > 0 && reader.seekable()) {
    base_ = at_.offset;
    behind = 1;
    reader = WebDatasetReader(bytes.part(base_, bytes.size), limits_);
  }
  skip_samples(reader, behind);
  if (at_.passed > 0 && reader.last().key != at_.key)
    refuse("'" + reader.last().key + "' is at the position of '" + at_.key + "'");
  reader_.emplace(std::move(reader));
}

void WebDatasetSource::open_file() {
  const RandomBytes bytes = RandomBytes::of_file(files_[at_.file].uri);
  if (at_.passed == 0 && at_.lost == 0) at_.bytes = bytes.size;
  if (bytes.size != at_.bytes)
    refuse(std::to_string(bytes.size) + " bytes instead of " + std::to_string(at_.bytes));
  if (at_.lost == 0) return open_reader(bytes);
  try {
    open_reader(bytes);
    reader_->next_names();
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_INVALID || is_passing(e.code())) throw;
    find_behind(e.what());
  }
  if (at_.lost > behind_.size()) refuse("other samples are behind its damage, or it has none");
}

void WebDatasetSource::close_file() {
  reader_.reset();
  damage_.clear();
  behind_.clear();
}

void WebDatasetSource::next_file() {
  close_file();
  const uint64_t left = at_.files - at_.file, step = has_whole_files() ? at_.shards : 1;
  at_.file += std::min(left, step);
  at_.passed = at_.lost = at_.offset = at_.bytes = 0;
  at_.key.clear();
}

void WebDatasetSource::pass_sample() {
  ++at_.passed;
  at_.key = reader_->last().key;
  at_.offset = reader_->seekable() ? base_ + reader_->last().offset : 0;
}

void WebDatasetSource::find_behind(const std::string& what) {
  damage_ = what;
  behind_.clear();
  if (reader_ ? !reader_->seekable() : at_.passed > 0) return;
  const uint64_t from = at_.passed > 0 ? base_ + reader_->last().offset + reader_->last().size : 0;
  try {
    behind_ = samples_behind(RandomBytes::of_file(files_[at_.file].uri), from);
  } catch (const Error& e) {
    if (is_passing(e.code())) throw;  // else nothing can be found: there is no such file
  }
  if (!behind_.empty()) behind_.erase(behind_.begin());  // the damaged place is its own
}

void WebDatasetSource::fail_behind() {
  while (at_.lost <= behind_.size()) {
    const WebDatasetEntry& one = behind_[at_.lost - 1];
    const bool mine = is_mine(at_.file, at_.passed + at_.lost);
    ++at_.lost;
    if (!mine) continue;
    const Error error(KINORA_ERROR_DATA, files_[at_.file].uri + ": the sample '" + one.key + "' at byte " +
                                             std::to_string(one.offset) +
                                             " is behind the damage of its shard (" + damage_ + ")");
    if (at_.lost > behind_.size()) next_file();
    throw error;
  }
  next_file();
}

std::optional<Sample> WebDatasetSource::next(const Run& run) {
  run.check_cancelled();
  require_open();
  while (at_.file < at_.files) {
    if (!damage_.empty()) {
      fail_behind();
      continue;
    }
    try {
      if (!reader_) open_file();
      if (!damage_.empty()) continue;
      if (auto sample = read_sample()) return sample;
    } catch (const Error& e) {
      if (reader_ && !reader_->broken()) throw;  // one sample
      fail_file(e);
    } catch (...) {
      close_file();
      throw;
    }
  }
  return std::nullopt;
}

void WebDatasetSource::fail_file(const Error& damage) {
  const std::string what = damage.what();
  if (is_passing(damage.code())) {
    close_file();
    throw;
  }
  try {
    find_behind(what);
  } catch (...) {
    close_file();
    throw;
  }
  at_.lost = 1;
  if (behind_.empty()) next_file();
  throw Error(KINORA_ERROR_DATA, what);
}

// The next sample of the file if it is this part's; nothing for another part's and at the end of the file.
std::optional<Sample> WebDatasetSource::read_sample() {
  const bool mine = is_mine(at_.file, at_.passed);
  std::optional<WebDatasetSample> read;
  try {
    read = mine ? reader_->next() : reader_->next_names();
  } catch (const Error&) {
    if (reader_->broken()) throw;
    pass_sample();
    if (mine) throw;
    return std::nullopt;
  }
  if (!read) return next_file(), std::nullopt;
  pass_sample();
  if (!mine) return std::nullopt;
  read->where.offset += base_;
  return to_sample(std::move(*read));
}

std::string WebDatasetSource::state() {
  require_open();
  return write(at_);
}

void WebDatasetSource::restore(std::string_view state) {
  require_open();
  Position to = read_position(state);
  const auto part = [](const Position& p) {
    return "part " + std::to_string(p.shard) + " of " + std::to_string(p.shards);
  };
  if (part(to) != part(at_))
    throw Error(KINORA_ERROR_INVALID, "the state is of " + part(to) + ", and this is " + part(at_) +
                                          "; open that part, or begin without a state");
  if (to.files != at_.files || to.names != at_.names)
    throw Error(KINORA_ERROR_INVALID, "the state is of " + std::to_string(to.files) +
                                          " shards, and here are " + std::to_string(at_.files) +
                                          ", or others; give the data that it was saved for");
  const bool ended = to.file == to.files && to.passed == 0;
  if (!ended && (to.file >= to.files || (has_whole_files() && to.file % to.shards != to.shard)))
    throw Error(KINORA_ERROR_INVALID, "the state has no position in these shards; begin without a state");
  std::swap(at_, to);
  close_file();
  try {
    if (at_.passed > 0 || at_.lost > 0) open_file();
  } catch (const Error& e) {
    close_file();
    at_ = to;
    throw Error(is_passing(e.code()) ? e.code() : KINORA_ERROR_INVALID, e.what());
  } catch (...) {
    close_file();
    at_ = to;
    throw;
  }
}

std::optional<uint64_t> WebDatasetSource::count() {
  require_open();
  uint64_t all = 0;
  for (uint64_t file = 0; file < at_.files; ++file) {
    const auto samples = files_[file].samples;
    if (!samples) return std::nullopt;
    if (has_whole_files()) {
      all += is_mine(file, 0) ? *samples : 0;
      continue;
    }
    const uint64_t first = (at_.shard + at_.shards - file % at_.shards) % at_.shards;  // is_mine(file, first)
    all += *samples > first ? (*samples - first - 1) / at_.shards + 1 : 0;
  }
  return all;
}

}  // namespace kinora::webdataset

using kinora::webdataset::WebDatasetSource;
KINORA_COMPONENT(WebDatasetSource)
KINORA_PLUGIN(WebDatasetSource)
