#include "plugins/jobs/latents/hdf5/hdf5_file.hpp"

namespace kinora::core::hdf5 {

File::File(std::shared_ptr<const ByteSource> source, Checksums checksums)
    : source_(std::move(source)), checksums_(checksums) {
  constexpr std::string_view kSignature = "\211HDF\r\n\032\n";
  constexpr const char* kNot = "not a whole HDF5 file";
  auto blocks = walk();
  const auto start = blocks.beginning(0, 96, "the start of the file");
  Cursor c(start, "the start of the file");
  if (c.left() < 48 || c.text(kSignature.size()) != kSignature) unsupported(kNot);
  const uint64_t version = c.number(1);
  if (version > 3) unsupported(fmt::format("version {} of HDF5 is too new", version));
  if (version < 2) c.skip(4);
  const uint64_t addresses = c.number(1), lengths = c.number(1);
  if (addresses != 8 || lengths != 8) unsupported("addresses are not of 8 bytes");
  c.skip(version < 2 ? 9 : 1);  // sizes of nodes, flags
  if (version == 1) c.skip(4);
  const uint64_t base = c.address();
  c.skip(8);  // free space, or the extension
  const uint64_t end = c.address();
  if (version < 2) c.skip(16);  // the driver; the root's name
  root_ = c.address();
  if (base != 0 || end > source_->size()) unsupported(kNot);
  if (version >= 2) blocks.check_metadata(Bytes(start).first(48), "the start of the file");
}

std::optional<std::string> File::text_of_root(const std::string& attribute) const {
  auto blocks = walk();
  std::string text;
  if (!read_text_attribute(read_object_header(blocks, root_), attribute, text)) return std::nullopt;
  return text;
}

Members File::members(uint64_t group) const {
  auto blocks = walk();
  return members_of(blocks, read_object_header(blocks, group));
}

void File::read(uint64_t dataset, const std::function<std::span<std::byte>(const Dataset&)>& room) const {
  auto blocks = walk();
  DatasetReader reader(blocks, dataset);
  const auto to = room(reader.dataset());
  reader.read(to);
}

}  // namespace kinora::core::hdf5
