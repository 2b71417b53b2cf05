using System;

namespace Realizar
{
    /// <summary>A prefix cache: keeps the KV cache of prompts, for sessions and conversations of one model that begin
    /// with the same tokens. With a folder, other processes share it. Any number of threads may use it at
    /// once.</summary>
    public sealed partial class Store
    {
        private readonly Model model;

        /// <summary>A store for a model.</summary>
        public unsafe Store(Model model, StoreOptions? options = null)
        {
            this.model = Native.Given(model, nameof(model));
            options = options ?? new StoreOptions();
            using (var pins = new Pins())
            {
                var p = options.Numbers();
                p.path = pins.Of(options.Path, nameof(options.Path));
                var at = (rz_store_params*)pins.Of(p);
                Handle.Take(Native.Made((store, err) => Native.rz_store_new(model.Handle, at, store, err)));
            }
        }

        /// <summary>A session that holds the leading tokens of a prompt that the store knows, but never the last one.
        /// The caller appends the tokens from Session.Length on. Capacity and types as in Model.NewSession.</summary>
        public unsafe Session Take(uint[] tokens, int capacity = 0, CacheType keys = CacheType.F16, CacheType values = CacheType.F16)
        {
            Native.Given(tokens, nameof(tokens));
            return Taken(capacity, keys, values, (pins, p, pointer, common, err) =>
                Native.rz_store_take(Handle, (uint*)pins.Of(tokens), (UIntPtr)tokens.Length, p, CancelHandle.None, pointer, common, err));
        }

        /// <summary>The same for a Prompt. Session.Prefill appends the rest, from token Session.Length on.</summary>
        public unsafe Session Take(Prompt prompt, int capacity = 0, CacheType keys = CacheType.F16, CacheType values = CacheType.F16)
        {
            Native.Given(prompt, nameof(prompt));
            return Taken(capacity, keys, values, (pins, p, pointer, common, err) =>
                Native.rz_store_take_prompt(Handle, prompt.Handle, p, CancelHandle.None, pointer, common, err));
        }

        private unsafe delegate int Taking(Pins pins, rz_cache_params* p, IntPtr* pointer, uint* common, rz_error* err);

        private unsafe Session Taken(int capacity, CacheType keys, CacheType values, Taking take)
        {
            using (var pins = new Pins())
            {
                var p = pins.Of(Session.Parameters(capacity, keys, values));
                return new Session(model, Native.Made((pointer, err) => {
                    uint common;
                    return take(pins, (rz_cache_params*)p, pointer, &common, err);
                }));
            }
        }

        /// <summary>Adds the tokens of a session with their KV cache. The session remains usable.</summary>
        public unsafe void Put(Session session) =>
            Native.Call(err => Native.rz_store_put(Handle, Native.Given(session, nameof(session)).Handle, err));

        /// <summary>Removes all prefixes, and the files of the model in the folder.</summary>
        public unsafe void Clear() => Native.Call(err => Native.rz_store_clear(Handle, err));

        /// <summary>The state of the store.</summary>
        public StoreInfo Info => StoreInfo.Get(Handle);
    }
}
