#include "kinora/plugin.hpp"

#include "plugins/storage/file/file_storage.hpp"

using kinora::file::FileStorage;
KINORA_COMPONENT(FileStorage)
KINORA_PLUGIN(FileStorage)
