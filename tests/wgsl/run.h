// The entry of the library: runs all groups of a launch; returns a message about the first fault, or null.
extern "C" const char* run(const char* name, const uint* grid, const uint* words, void** at, const uint64_t* bytes, uint order) {
    const auto found = kernels.find(name);
    message.clear();
    if (found == kernels.end()) return "there is no such kernel";
    Buffers from;
    for (int i = 0; i < 5; i++) from.at[i] = at[i], from.bytes[i] = bytes[i];
    from.words = words;
    current_kernel = found->first.c_str();
    arrange(found->second.threads, order);
    for (uint z = 0; z < grid[2]; z++)
        for (uint y = 0; y < grid[1]; y++)
            for (uint x = 0; x < grid[0]; x++) {
                current_group = metal::uint3(x, y, z);
                found->second.group(from, current_group);
                if (!message.empty()) return message.c_str();
            }
    return nullptr;
}
