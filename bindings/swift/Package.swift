// swift-tools-version: 5.9
import PackageDescription

let package = Package(
    name: "Realizar",
    platforms: [.macOS(.v12), .iOS(.v15)],
    products: [.library(name: "Realizar", targets: ["Realizar"])],
    targets: [
        .systemLibrary(name: "CRealizar", pkgConfig: "realizar"),
        .target(
            name: "Realizar", dependencies: ["CRealizar"],
            swiftSettings: [.enableExperimentalFeature("StrictConcurrency")]),
        .executableTarget(name: "Chat", dependencies: ["Realizar"]),
        .testTarget(name: "RealizarTests", dependencies: ["Realizar"]),
    ]
)
