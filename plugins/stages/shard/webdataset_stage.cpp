#include "webdataset_stage.hpp"

#include <algorithm>
#include <string>

#include "kinora/error.hpp"
#include "kinora/plugin.hpp"

namespace kinora::shard {
namespace {

[[noreturn]] void refuse(std::string_view key, const std::string& why) {
  throw Error(KINORA_ERROR_DATA, "sample '" + std::string(key) + "' cannot be stored: " + why);
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; });
}

// Whether a part is "__x__", which readers treat as a comment and skip.
bool is_note(std::string_view part) {
  return part.size() >= 4 && part.starts_with("__") && part.ends_with("__");
}

// An error of a shard or its index is not the fault of one sample: the engine ends the run on these two
// codes.
template <class F>
void as_storage_error(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    const bool full = e.code() == KINORA_ERROR_NO_MEMORY;
    throw Error(full || e.code() == KINORA_ERROR_CANCELLED ? e.code() : KINORA_ERROR_IO, e.what());
  }
}

void write_file(const std::string& uri, std::string_view text) {
  Writer out(uri);
  out.write(text);
  out.commit();
}

constexpr const char* kFolder = "shard.folder";

// Returns the folder of a sample: below the dataset and without dots, because readers end a shard's name at a
// dot.
std::string folder_of(const Sample& in) {
  const std::string folder(in.text(kFolder).value_or(""));
  const bool is_name = std::all_of(folder.begin(), folder.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '/';
  });
  const bool is_below =
      !folder.starts_with('/') && !folder.ends_with('/') && folder.find("//") == std::string::npos;
  if (is_name && is_below) return folder;
  throw Error(KINORA_ERROR_DATA, "sample '" + std::string(in.key()) + "' cannot be stored: its field " +
                                     kFolder + " is '" + folder +
                                     "'; use letters, digits, '_' and '-', with '/' between names");
}

std::string six_digits(size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

// The samples of members that were written one after the other.
std::vector<energon::StoredSample> samples_of(const std::vector<Member>& members, uint64_t end) {
  energon::Grouping grouping;
  std::vector<energon::StoredSample> out;
  for (const Member& m : members)
    if (auto sample = grouping.add(m.name, m.header, m.content, m.size)) out.push_back(*std::move(sample));
  if (auto sample = grouping.finish(end)) out.push_back(*std::move(sample));
  return out;
}

// A shard that an interrupted run has written.
struct WrittenShard {
  explicit WrittenShard(const std::string& uri) {
    try {
      energon::ShardScan scan(RandomBytes::of_file(uri));
      while (auto sample = scan.next()) samples.push_back(*std::move(sample));
      end = scan.end();
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_DATA) throw;
      throw Error(KINORA_ERROR_DATA,
                  std::string(e.what()) + "; or remove the shard and run again to write it anew");
    }
  }
  std::vector<energon::StoredSample> samples;
  uint64_t end = 0;
};

bool exists(const std::string& uri) {
  try {
    const Reader reader(uri);
    return true;
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_NOT_FOUND) return false;
    throw;
  }
}

}  // namespace

void check_key(std::string_view key) {
  if (key.empty()) refuse(key, "its key is empty; give every sample a key");
  if (has_control(key)) refuse(key, "its key contains a control character; use letters, digits, '-' and '_'");
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    const std::string_view part = key.substr(at, end - at);
    const bool last = end == key.size();
    if (part.empty() || part == "." || part == "..")
      refuse(key, "its key has an empty part, '.' or '..' between slashes; remove it");
    if (is_note(part))
      refuse(key, "readers skip names such as '" + std::string(part) + "'; choose another key");
    if (last && part.find('.') != std::string_view::npos)
      refuse(key,
             "a key may have no dot after its last slash, because readers end the key there; replace the dot "
             "with '-' or '_'");
    at = end + 1;
  }
}

void check_field(std::string_view key, std::string_view field) {
  if (field.empty() || field.find('/') != std::string_view::npos || has_control(field))
    refuse(key, "the field name '" + std::string(field) +
                    "' is empty or has a slash or a control character; rename the field");
}

void WebDatasetStage::describe(Describe<Options>& d) {
  d.name("shard.webdataset").help("Packs samples into WebDataset tar shards with Energon's index");
  d.option("prefix", &Options::prefix).help("start of the shards' names: PREFIX-000000.tar and so on");
  d.option("max_count", &Options::max_count)
      .range(1, 1'000'000'000)
      .help("maximum number of samples per shard");
  d.option("max_size", &Options::max_size)
      .bytes()
      .at_least(1024)
      .help("largest size of a shard, unless a single sample is larger");
  d.option("val", &Options::val)
      .range(0, 1)
      .help("share of the shards that split.yaml assigns to validation");
  d.option("skip", &Options::skip).help("fields that are not stored");
  d.option("part", &Options::part)
      .range(0, 1'000'000)
      .unit("shards")
      .help("most shards per folder part_000000, part_000001 and so on; 0: no such folders");
}

WebDatasetStage::WebDatasetStage(const Options& options) : options_(options) {
  check_field("", options.prefix);
  if (options.prefix.find('.') != std::string::npos)
    throw Error(KINORA_ERROR_INVALID, "prefix = '" + options.prefix +
                                          "': readers end a shard's name at its first dot; remove the dot");
}

std::string WebDatasetStage::shard_name(size_t number) const {
  const auto part = static_cast<size_t>(options_.part);
  std::string name = place_.empty() ? "" : place_ + "/";
  if (part > 0) name += "part_" + six_digits(number / part) + "/";
  return name + options_.prefix + "-" + six_digits(part > 0 ? number % part : number) + ".tar";
}

// Directs the following shards to this folder.
void WebDatasetStage::enter(const std::string& folder, const Emit& emit, const Run& run) {
  if (index_ && folder == place_) return;
  if (open_) close(emit);
  place_ = folder;
  find_written_shards(run);
}

// Finds the shards of an interrupted run. They are complete, because a shard appears only when it is.
void WebDatasetStage::find_written_shards(const Run& run) {
  if (!index_) {
    folder_ = run.out();
    index_.emplace();
  }
  if (!numbers_.try_emplace(place_, 0).second) return;
  for (;;) {
    run.check_cancelled();
    const std::string name = next_name();
    if (!exists(uri(name))) return;
    const WrittenShard shard(uri(name));
    if (!exists(uri(name + ".idx")))
      write_file(uri(name + ".idx"), energon::tar_index(shard.samples, shard.end));
    record(name, shard.samples);
    was_there_.back() = 1;
  }
}

void WebDatasetStage::record(const std::string& name, const std::vector<energon::StoredSample>& samples) {
  index_->add(static_cast<int64_t>(shards_.size()), samples);
  shards_.push_back({name, samples.size()});
  was_there_.push_back(0);
  ++numbers_.at(place_);
  hash_.add(name);
  for (const auto& sample : samples) hash_.add(sample);
}

std::vector<Sample::Field> WebDatasetStage::checked_fields(const Sample& in) const {
  check_key(in.key());
  std::vector<Sample::Field> out;
  for (const auto& field : in.fields()) {
    if (std::find(options_.skip.begin(), options_.skip.end(), field.name) != options_.skip.end()) continue;
    if (field.name == kFolder) continue;
    check_field(in.key(), field.name);
    out.push_back(field);
  }
  if (out.empty())
    throw Error(KINORA_ERROR_DATA,
                "sample '" + std::string(in.key()) +
                    "' cannot be stored: it has no byte fields; put a stage that sets one before this stage");
  return out;
}

bool WebDatasetStage::is_stored(const Sample& in) const {
  const auto place = index_->find(in.key());
  if (place && was_there_[static_cast<size_t>(place->shard)]) return true;
  if (place || (open_ && open_->known.contains(std::string(in.key()))))
    throw Error(KINORA_ERROR_DATA,
                "sample '" + std::string(in.key()) +
                    "' cannot be stored: this run has already stored a sample with that key" +
                    (place ? " in " + shards_[static_cast<size_t>(place->shard)].name : "") +
                    "; make the keys differ");
  return false;
}

void WebDatasetStage::process(Sample in, const Emit& emit, const Run& run) {
  const auto fields = checked_fields(in);
  const std::string folder = folder_of(in);
  as_storage_error([&] { enter(folder, emit, run); });
  if (is_stored(in)) return;
  emit.hold();
  as_storage_error([&] {
    uint64_t size = 1024;  // end-of-archive blocks
    for (const auto& field : fields) size += padded(field.bytes.size());
    if (open_ && open_->tar.size() + size > static_cast<uint64_t>(options_.max_size)) close(emit);
    write(in, fields);
    if (open_->keys.size() >= static_cast<size_t>(options_.max_count)) close(emit);
  });
}

// A failed write leaves open_ unusable; it is not used again, and its destructor removes the partial file.
void WebDatasetStage::write(const Sample& in, const std::vector<Sample::Field>& fields) {
  if (!open_) open_ = std::make_unique<OpenShard>(uri(next_name()));
  const std::string key(in.key());
  for (const auto& field : fields)
    open_->members.push_back(
        open_->tar.append(key + "." + std::string(field.name), field.bytes.data(), field.bytes.size()));
  open_->keys.push_back(key);
  open_->known.insert(key);
}

void WebDatasetStage::close(const Emit& emit) {
  const std::unique_ptr<OpenShard> shard = std::move(open_);
  const uint64_t end = shard->tar.size();
  shard->tar.commit();
  const std::string name = next_name();
  const auto samples = samples_of(shard->members, end);
  write_file(uri(name + ".idx"), energon::tar_index(samples, end));
  record(name, samples);
  for (const auto& key : shard->keys) emit.stored(key);
}

void WebDatasetStage::finish(const Emit& emit, const Run& run) {
  if (!index_) find_written_shards(run);
  if (open_) close(emit);
  const std::string meta = folder_ + "/.nv-meta/";
  index_->publish(meta + "index.sqlite");
  write_file(meta + "index.uuid", hash_.uuid());
  write_file(meta + "split.yaml", energon::split_yaml(shards_, options_.val));
  write_file(meta + "dataset.yaml", energon::dataset_yaml());
  write_file(meta + ".info.json",
             energon::info_json(shards_));  // written last: it makes the folder a dataset
}

}  // namespace kinora::shard

using kinora::shard::WebDatasetStage;
KINORA_COMPONENT(WebDatasetStage)
KINORA_PLUGIN(WebDatasetStage)
